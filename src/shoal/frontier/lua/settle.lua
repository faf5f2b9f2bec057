-- settle.lua: leases come to their end.
-- ARGV blocks of 9: group, index, outcome, reason, delay_ms, hold_ms, latency_ms, received bytes, entry of a retry
-- returns {settlements refused because the lease was lost, job that ended by this call, …}
local BLOCK, SLOWEST = 9, 32
local FIELD = { done = 'done', dead = 'dead', filtered = 'dropped', robots = 'dropped' }
local touched, states, hosts, reasons = {}, {}, {}, {}

local function state_of(job)
  if states[job] == nil then states[job] = redis.call('HGET', job_key(job), 'state') or false end
  return states[job]
end

local function note_host(host, job, hold_ms, latency_ms)
  local h = hosts[host]
  if not h then
    h = { n = 0, latency = 0, timed = 0, hold = 0, job = job }
    hosts[host] = h
  end
  h.n = h.n + 1
  h.hold = math.max(h.hold, hold_ms)
  if latency_ms > 0 then
    h.latency = h.latency + latency_ms
    h.timed = h.timed + 1
  end
end

local function note_reason(job, outcome, reason)
  count(reason == '' and outcome or outcome .. ':' .. reason, 1)
  if reason == '' then return end
  reasons[job] = reasons[job] or {}
  local name = outcome .. ':' .. reason
  reasons[job][name] = (reasons[job][name] or 0) + 1
end

local function settle(job, host, level, at)
  local outcome, reason = ARGV[at + 2], ARGV[at + 3]
  touched[job] = true
  add(job, 'leased', -1)
  add(job, 'received', tonumber(ARGV[at + 7]))
  if outcome ~= 'retry' then
    add(job, FIELD[outcome], 1)
    if reason == 'redirect' then add(job, 'redirects', 1) end
  elseif state_of(job) == 'cancelled' then
    add(job, 'dropped', 1)
  else
    add(job, 'delayed', 1)
    add(job, 'retries', 1)
    redis.call('ZADD', delayed_key(job), now + tonumber(ARGV[at + 4]),
      job .. ' ' .. host .. ' ' .. level .. ' ' .. ARGV[at + 8])
  end
  note_reason(job, outcome, reason)
end

local function take(at, record)
  local job, host, level = split_record(record)
  note_host(host, job, tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]))
  if state_of(job) then settle(job, host, level, at) end
end

-- A job's rate is taken over the last five to ten seconds: 'since' and 'mark' are two moments at least that far apart.
local WINDOW_MS = 5000
local function mark_rate(job)
  local j = redis.call('HMGET', job_key(job), 'done', 'mark', 'mark_done', 'started')
  local mark = tonumber(j[2]) or tonumber(j[4]) or now
  if now - mark < WINDOW_MS then return end
  redis.call('HSET', job_key(job), 'since', mark, 'since_done', j[3] or 0, 'mark', now, 'mark_done', j[1] or 0)
end

local function write_host(host, h)
  local fields = {}
  if h.timed > 0 then
    local mean = h.latency / h.timed
    local before = tonumber(redis.call('HGET', host_key(host), 'latency'))
    local latency = math.floor(before and before * 0.7 + mean * 0.3 or mean)
    fields = { 'latency', latency }
    redis.call('ZADD', slow_key(h.job), latency, host)
    redis.call('ZREMRANGEBYRANK', slow_key(h.job), 0, -SLOWEST - 1)
  end
  if h.hold > 0 then
    -- A short Retry-After must not cut a longer one that another worker has heard.
    fields[#fields + 1] = 'hold'
    fields[#fields + 1] = math.max(tonumber(redis.call('HGET', host_key(host), 'hold')) or 0, now + h.hold)
  end
  if #fields > 0 then redis.call('HSET', host_key(host), unpack(fields)) end
  host_returned(host, h.n, touched)
end

local groups, order = {}, {}
for at = 1, #ARGV, BLOCK do
  local group = ARGV[at]
  if not groups[group] then
    groups[group] = { indexes = {}, at = {} }
    order[#order + 1] = group
  end
  local g = groups[group]
  g.indexes[#g.indexes + 1] = ARGV[at + 1]
  g.at[ARGV[at + 1]] = g.at[ARGV[at + 1]] or at
end

local late = 0
for _, group in ipairs(order) do
  local g = groups[group]
  late = late + take_leases(group, g.indexes, function(index, record) take(g.at[index], record) end)
end
for host, h in pairs(hosts) do write_host(host, h) end
for job, names in pairs(reasons) do
  for name, n in pairs(names) do redis.call('HINCRBY', reasons_key(job), name, n) end
end
count('late', late)
local jobs = {}
for job in pairs(touched) do jobs[#jobs + 1] = job end
local ended = finish_moves(touched)
for _, job in ipairs(jobs) do mark_rate(job) end
return { late, unpack(ended) }
