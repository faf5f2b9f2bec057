-- recall.lua: what the database has of a lost job counts again; a row counts once, however often it is told.
-- ARGV[1] job   ARGV[2..] blocks of 7: fingerprint, host, sum ('done', 'dead' or 'dropped'), outcome:reason ('' = none),
--   received bytes, ms when it was asked for (0 = unknown) on the clock of some worker, bytes saved
-- returns how many were new; -1 when the job is unknown
local BLOCK = 7
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'base', 'split', 'host_pages', 'host_bytes', 'host_seconds', 'started',
  'seconds', 'rested', 'created')
if not j[1] then return -1 end
local function number(i) return tonumber(j[i]) or 0 end
local base, split = number(1), number(2)
local by_pages, by_bytes, by_seconds = number(3) > 0, number(4) > 0, number(5) > 0
local started, recalled, reasons, spent, first = tonumber(j[6] or '') or NEVER, 0, {}, {}, {}

-- A worker's clock may be wrong: nothing was asked for before the job was there, nor after now.
local function in_its_life(at) return min(max(at, number(9)), now) end

-- What a host has used of the job's budgets for each host; see settle.
local function spend(host, sum, redirect, received, at)
  if by_pages and sum == 'done' and not redirect then spent['p ' .. host] = (spent['p ' .. host] or 0) + 1 end
  if by_bytes and received > 0 then spent['b ' .. host] = (spent['b ' .. host] or 0) + received end
  if by_seconds and at > 0 then first['s ' .. host] = min(first['s ' .. host] or NEVER, at) end
end

for i = 2, #ARGV, BLOCK do
  local fingerprint, host, sum, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local received, at = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  if at > 0 then at = in_its_life(at) end
  if redis.call('SADD', seen_key(job, bucket_of(fingerprint, base, split)), fingerprint) == 1 then
    local redirect = reason == 'done:redirect'
    recalled = recalled + 1
    add(job, sum, 1)
    add(job, 'received', received)
    if tonumber(ARGV[i + 6]) > 0 then add(job, 'saved', tonumber(ARGV[i + 6])) end
    if redirect then add(job, 'redirects', 1) end
    if reason ~= '' then reasons[reason] = (reasons[reason] or 0) + 1 end
    spend(host, sum, redirect, received, at)
    if at > 0 then started = min(started, at) end
  end
end

add(job, 'seen', recalled)
add(job, 'admitted', recalled)
add(job, 'recalled', recalled)
write_sums()
for reason, n in pairs(reasons) do redis.call('HINCRBY', reasons_key(job), reason, n) end
for field, n in pairs(spent) do redis.call('HINCRBY', spend_key(job), field, n) end
for field, at in pairs(first) do
  local known = tonumber(redis.call('HGET', spend_key(job), field) or '') or NEVER
  redis.call('HSET', spend_key(job), field, string.format('%d', min(known, at)))
end
if started < NEVER then
  redis.call('HSET', job_key(job), 'started', string.format('%d', started))
  if number(7) > 0 then
    redis.call('HSET', job_key(job), 'deadline', string.format('%d', started + number(7) * 1000 + number(8)))
  end
end
return recalled
