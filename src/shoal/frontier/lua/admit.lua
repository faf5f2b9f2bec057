-- admit.lua: let URLs into a job that it has not seen, as far as its page budget goes.
-- ARGV[1] job   ARGV[2] duplicates that the caller has dropped itself
-- ARGV[3..] triples: fingerprint, host, level .. entry; or fingerprint, '', reason for a URL that the scope refuses
-- returns {state or '', admitted, duplicates, filtered, over budget}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'pages', 'admitted', 'dead', 'dropped', 'seen', 'base',
  'split', 'redirects')
if not j[1] then return { '', 0, 0, 0, 0 } end
if j[2] or j[1] == 'cancelled' then return { j[1], 0, 0, 0, 0 } end

local function number(i) return tonumber(j[i]) or 0 end
local budget = number(3) > 0 and number(3) - (number(4) - number(5) - number(6) - number(10)) or NEVER
local seen, base, split = number(7), number(8), number(9)

local function split_one()
  local from, to = split, split + base
  local members = redis.call('SMEMBERS', seen_key(job, from))
  local stay, move = {}, {}
  for _, fingerprint in ipairs(members) do
    local half = spread(fingerprint) % (base * 2) == to and move or stay
    half[#half + 1] = fingerprint
  end
  if #move > 0 then
    redis.call('DEL', seen_key(job, from))
    if #stay > 0 then redis.call('SADD', seen_key(job, from), unpack(stay)) end
    redis.call('SADD', seen_key(job, to), unpack(move))
  end
  split = split + 1
  if split == base then base, split = base * 2, 0 end
end

local function grow()
  while seen > PER_BUCKET * (base + split) do split_one() end
end

-- A redirect's target takes the place of the page that pointed to it: it needs no budget of its own.
local function is_hop(payload)
  local hops = string.match(payload, '^%d%a%d+,%d+,(%d+),')
  return hops and hops ~= '0'
end

local lines, order = {}, {} -- entries by 'level host', in order of arrival
local admitted, duplicates, filtered, over = 0, tonumber(ARGV[2]), 0, 0
local reasons = {}
for i = 3, #ARGV, 3 do
  local fingerprint, host, payload = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('SADD', seen_key(job, bucket_of(fingerprint, base, split)), fingerprint) == 0 then
    duplicates = duplicates + 1
  else
    seen = seen + 1
    grow()
    if host == '' then
      filtered = filtered + 1
      reasons[payload] = (reasons[payload] or 0) + 1
    elseif budget <= 0 and not is_hop(payload) then
      over = over + 1
    else
      budget = budget - 1
      admitted = admitted + 1
      local line = string.sub(payload, 1, 1) .. host
      if not lines[line] then
        lines[line] = {}
        order[#order + 1] = line
      end
      table.insert(lines[line], string.sub(payload, 2))
    end
  end
end

for _, line in ipairs(order) do
  enqueue(job, string.sub(line, 2), string.sub(line, 1, 1), lines[line], false)
end
if over > 0 then reasons['over_budget'] = over end
for reason, n in pairs(reasons) do redis.call('HINCRBY', reasons_key(job), 'filtered:' .. reason, n) end
redis.call('HSET', job_key(job), 'base', base, 'split', split)
add(job, 'seen', admitted + filtered + over)
add(job, 'admitted', admitted)
add(job, 'queued', admitted)
add(job, 'filtered', filtered + over)
add(job, 'duplicates', duplicates)
write_sums()
if admitted > 0 then refresh_due(job) end
return { j[1], admitted, duplicates, filtered, over }
