-- admit.lua: let URLs into a job that it has not seen, as far as its page budget goes.
-- ARGV[1] job   ARGV[2] duplicates that the caller has dropped itself
-- ARGV[3..] triples: fingerprint, host, level .. entry (levels 3 to 5 are for the browser); or fingerprint, '', reason
--   for a URL that the scope refuses
-- returns {state or '', admitted, duplicates, filtered, over budget}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'pages', 'admitted', 'dead', 'dropped', 'seen', 'base',
  'split', 'redirects', 'spent', 'host_pages', 'host_bytes', 'host_seconds', 'rebuild', 'queue', 'share')
-- A lost job is not known before it knows what is stored of it: who has found links has a row that they are taken from.
if not j[1] or (j[15] and is_recalling(j[15])) then return { '', 0, 0, 0, 0 } end
if j[2] or j[1] == 'cancelled' or j[1] == 'sealed' then return { j[1], 0, 0, 0, 0 } end

local function number(i) return tonumber(j[i]) or 0 end
local budget = number(3) > 0 and number(3) - (number(4) - number(5) - number(6) - number(10)) or NEVER
if j[17] and j[17] ~= '' then budget = number(3) - number(4) end -- a slot has a share of the job's, see `share`
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

-- Budgets for each host of the job: what is left of its pages, and whether its bytes or its time are used up.
local host_budgets = number(12) + number(13) + number(14) > 0
local hosts = {}
local function host_left(host)
  local h = hosts[host]
  if h then return h end
  local v = redis.call('HMGET', spend_key(job), 'p ' .. host, 'b ' .. host, 's ' .. host)
  h = { pages = number(12) > 0 and number(12) - (tonumber(v[1]) or 0) or NEVER, new = 0 }
  if number(13) > 0 and (tonumber(v[2]) or 0) >= number(13) then h.over = 'over_host_bytes' end
  if number(14) > 0 and v[3] and now - tonumber(v[3]) >= number(14) * 1000 then h.over = 'over_host_seconds' end
  hosts[host] = h
  return h
end

-- Why a URL is beyond a budget, or nil. A redirect's target needs none for its page.
local function beyond(host, payload)
  if j[11] then return j[11] end
  if budget <= 0 and not is_hop(payload) then return 'over_budget' end
  if not host_budgets then return nil end
  local h = host_left(host)
  if h.over then return h.over end
  if h.pages <= 0 and not is_hop(payload) then return 'over_host_budget' end
  h.pages = h.pages - 1
  h.new = h.new + 1
end

-- A job that is for the browser as a whole has no half for it.
local has_half = half_of(j[16] or '')
local ZERO = string.byte('0')
local function level_of(payload)
  local level = string.byte(payload) - ZERO
  return level >= RENDER and not has_half and level - RENDER or level
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
    if seen > PER_BUCKET * (base + split) then grow() end
    if host == '' then
      filtered = filtered + 1
      reasons[payload] = (reasons[payload] or 0) + 1
    else
      local why = beyond(host, payload)
      if why then
        over = over + 1
        reasons[why] = (reasons[why] or 0) + 1
      else
        budget = budget - 1
        admitted = admitted + 1
        local line = level_of(payload) .. host
        local entries = lines[line]
        if not entries then
          entries = {}
          lines[line] = entries
          order[#order + 1] = line
        end
        entries[#entries + 1] = string.sub(payload, 2)
      end
    end
  end
end

local ready = { plain = {}, half = {} }
for _, line in ipairs(order) do
  local level = string.sub(line, 1, 1)
  enqueue(job, string.sub(line, 2), level, lines[line], false, ready)
  add_place(job, level, 'queued', #lines[line])
end
local function make_ready(list, hosts)
  for i = 1, #hosts, 1000 do redis.call('ZADD', list, 'NX', unpack(hosts, i, min(i + 999, #hosts))) end
end
make_ready(ready_key(job), ready.plain)
make_ready(render_key(job), ready.half)
if number(12) > 0 then
  for host, h in pairs(hosts) do
    if h.new > 0 then redis.call('HINCRBY', spend_key(job), 'p ' .. host, h.new) end
  end
end
for reason, n in pairs(reasons) do redis.call('HINCRBY', reasons_key(job), 'filtered:' .. reason, n) end
redis.call('HSET', job_key(job), 'base', base, 'split', split)
add(job, 'seen', admitted + filtered + over)
add(job, 'admitted', admitted)
add(job, 'filtered', filtered + over)
add(job, 'duplicates', duplicates)
write_sums()
if admitted > 0 then refresh_due(job) end
return { j[1], admitted, duplicates, filtered, over }
