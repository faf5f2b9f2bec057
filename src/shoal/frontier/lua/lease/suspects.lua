-- lease/suspects.lua: requests that were lost with a worker. One of them may have killed it, so few are in the hands of
-- one process at a time, and of those that are at their last chance only one, with no other suspect beside it: who is
-- innocent is not buried with the guilty. What was never lost is company for anyone: a first loss costs it nothing.
local COMPANY, SKIPPED, SUSPECT_MS = 16, 64, 50
local holder = ARGV[6]
local held -- losses → how many such requests the caller has; read when a suspect is met
local met = {} -- index of a record → its losses

-- 0 for one that was never lost, and for one that was lost too often: that is given up and not fetched.
local SLASH, FOUND_ON = string.byte('/'), string.byte('~')
local function losses_of(entry)
  local third = string.byte(entry, 3)
  if third == FOUND_ON or third == SLASH then return 0 end -- a depth and nothing else, as almost all
  return tonumber(string.match(entry, '^%a%d+,%d+,%d+,([12])[~/]') or '') or 0
end

local function read_held()
  held = { 0, 0 }
  local known = redis.call('HGETALL', suspects_key(holder))
  for i = 1, #known, 2 do
    local group, index = string.match(known[i], '^(%d+) (%d+)$')
    if redis.call('HEXISTS', lease_key(group), index) == 1 then
      local losses = tonumber(known[i + 1])
      held[losses] = held[losses] + 1
    else
      redis.call('HDEL', suspects_key(holder), known[i])
    end
  end
end

-- May the caller have this one, as the next record?
local function trusts(losses, index)
  if losses == 0 then return true end
  if not held then read_held() end
  if held[2] > 0 or held[1] >= (losses == 1 and COMPANY or 1) then return false end
  held[losses] = held[losses] + 1
  met[index] = losses
  return true
end

local function note_suspects(group)
  if not next(met) then return end
  for index, losses in pairs(met) do
    redis.call('HSET', suspects_key(holder), string.format('%d %d', group, index), losses)
  end
  redis.call('EXPIRE', suspects_key(holder), DAY_S)
end

-- To the front of the queues from which they were taken.
local function return_suspects(kept)
  for i = #kept, 1, -1 do
    local job, host, level, entry = split_record(kept[i])
    redis.call('LPUSH', queue_key(job, host, level), entry)
  end
end
