-- settle.lua: leases come to their end.
-- ARGV blocks of 10: group, index, outcome ('later' = a retry that is no attempt), reason, delay_ms, hold_ms,
--   latency_ms, received bytes, entry of a retry, signal about the host ('?' behind it when the lease was a probe)
-- returns {settlements refused because the lease was lost, job that ended by this call, …}
local BLOCK, SLOWEST = 10, 32
local FIELD = { done = 'done', dead = 'dead', filtered = 'dropped', robots = 'dropped' }
local touched, states, hosts, reasons = {}, {}, {}, {}

local function state_of(job)
  if states[job] == nil then
    local j = redis.call('HMGET', job_key(job), 'state', 'host_pages', 'host_bytes', 'rate', 'rate0', 'robots')
    states[job] = j[1] and { state = j[1], pages = (tonumber(j[2]) or 0) > 0, bytes = (tonumber(j[3]) or 0) > 0,
      rate = tonumber(j[4] or ''), rate0 = tonumber(j[5]) or 0, robots = j[6] == '1' } or false
  end
  return states[job]
end

-- What a batch tells about a host, summed up.
local function note_host(host, job, at)
  local seen = hosts[host]
  if not seen then
    seen = { n = 0, latency = 0, timed = 0, hold = 0, job = job, ok = 0, alive = 0, busy = 0, slow = 0, down = 0,
      why = {} }
    hosts[host] = seen
  end
  seen.n = seen.n + 1
  local latency, hold, signal = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 5]), ARGV[at + 9]
  if hold > seen.hold then seen.hold, seen.why.hold = hold, ARGV[at + 3] end
  if string.sub(signal, -1) == '?' then seen.probed, signal = true, string.sub(signal, 1, -2) end
  if signal == '' then return end
  if latency > 0 then seen.latency, seen.timed = seen.latency + latency, seen.timed + 1 end
  seen[signal] = seen[signal] + 1
  seen.why[signal] = ARGV[at + 3]
end

local function note_reason(job, outcome, reason)
  count(reason == '' and outcome or outcome .. ':' .. reason, 1)
  if reason == '' then return end
  reasons[job] = reasons[job] or {}
  local name = outcome .. ':' .. reason
  reasons[job][name] = (reasons[job][name] or 0) + 1
end

-- What a host has used of this job's budgets for each host.
local function spend(job, host, outcome, reason, received)
  local budgets = state_of(job)
  if budgets.pages and (FIELD[outcome] and outcome ~= 'done' or reason == 'redirect') then
    redis.call('HINCRBY', spend_key(job), 'p ' .. host, -1)
  end
  if budgets.bytes and received > 0 then redis.call('HINCRBY', spend_key(job), 'b ' .. host, received) end
end

local function put_back(job, host, level, at, counts)
  add(job, 'delayed', 1)
  if counts then add(job, 'retries', 1) end
  redis.call('ZADD', delayed_key(job), now + tonumber(ARGV[at + 4]),
    job .. ' ' .. host .. ' ' .. level .. ' ' .. ARGV[at + 8])
end

local function settle(job, host, level, at)
  local outcome, reason, received = ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 7])
  touched[job] = true
  add(job, 'leased', -1)
  add(job, 'received', received)
  spend(job, host, outcome, reason, received)
  if FIELD[outcome] then
    add(job, FIELD[outcome], 1)
    if reason == 'redirect' then add(job, 'redirects', 1) end
  elseif state_of(job).state == 'cancelled' then
    add(job, 'dropped', 1)
  else
    put_back(job, host, level, at, outcome == 'retry')
  end
  if outcome ~= 'later' then note_reason(job, outcome, reason) end
end

local function take(at, record)
  local job, host, level = split_record(record)
  note_host(host, job, at)
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

-- --- what is learnt about a host ---------------------------------------------------------------------------------

-- Fields of one hash that change; nil takes one away.
local function change(h, field, value)
  if value == nil then
    h.lost = h.lost or {}
    h.lost[#h.lost + 1] = field
  else
    h.gained = h.gained or {}
    h.gained[#h.gained + 1] = field
    h.gained[#h.gained + 1] = value
  end
  h[field] = value
end

local slowest = {} -- job → {least = ms that it takes to be among them, ms, host, …}
local function note_slowest(job, host, latency)
  local slow = slowest[job]
  if not slow then
    local last = redis.call('ZRANGE', slow_key(job), -SLOWEST, -SLOWEST, 'WITHSCORES')
    slow = { least = tonumber(last[2] or -1) }
    slowest[job] = slow
  end
  if latency <= slow.least and not redis.call('ZSCORE', slow_key(job), host) then return end
  slow[#slow + 1] = latency
  slow[#slow + 1] = host
end

local function write_slowest()
  for job, flat in pairs(slowest) do
    if #flat > 0 then
      redis.call('ZADD', slow_key(job), unpack(flat))
      redis.call('ZREMRANGEBYRANK', slow_key(job), 0, -SLOWEST - 1)
    end
  end
end

local SLOW_MS, FAST_MS = 2000, 1000
local function learn_latency(host, h, seen)
  if seen.timed == 0 then return end
  local mean = seen.latency / seen.timed
  change(h, 'latency', math.floor(h.latency and h.latency * 0.7 + mean * 0.3 or mean))
  change(h, 'calm', math.floor(10 * (h.calm and h.calm * 0.98 + mean * 0.02 or mean)) / 10)
  note_slowest(seen.job, host, h.latency)
  if h.latency > SLOW_MS and not h.slow then
    change(h, 'slow', 1)
    note(host, 'slow_lane', string.format('answers in %d ms', h.latency))
  elseif h.latency < FAST_MS and h.slow then
    change(h, 'slow', nil)
    note(host, 'fast_lane', string.format('answers in %d ms', h.latency))
  end
end

-- The breaker: failures in a row trip it, probes find out, and when they fail too the host counts as down.
local FAILURES, PROBES, FIRST_PROBE_MS, LAST_PROBE_MS, DOWN_MS, LONGEST_DOWN_MS = 5, 5, 2000, 30000, 300000, 3600000
local function reached(host, h)
  if h.fails then change(h, 'fails', nil) end
  if not (h.trip or h.gone) then return end
  for _, field in ipairs({ 'trip', 'probe_at', 'probing', 'gone', 'downs' }) do change(h, field, nil) end
  note(host, 'reached', 'it answers again')
end

local function probe_failed(host, h, reason)
  local trip = (h.trip or 0) + 1
  change(h, 'probing', nil)
  if trip < PROBES and not h.gone then
    local delay = math.min(FIRST_PROBE_MS * 2 ^ trip, LAST_PROBE_MS)
    change(h, 'trip', trip)
    change(h, 'probe_at', now + delay)
    note(host, 'tripped', string.format('%s again: next probe in %d s', reason, delay / 1000))
    return
  end
  change(h, 'downs', (h.downs or 0) + 1)
  local rest = math.min(DOWN_MS * 2 ^ (h.downs - 1), LONGEST_DOWN_MS)
  change(h, 'gone', now + rest)
  note(host, 'down', string.format('%s in every probe: its requests are given up for %d s', reason, rest / 1000))
end

local function trip(host, h, seen)
  change(h, 'fails', (h.fails or 0) + seen.down)
  if h.fails < FAILURES then return end
  change(h, 'trip', 0)
  change(h, 'probe_at', now + FIRST_PROBE_MS)
  note(host, 'tripped', string.format('%s %d times in a row: next probe in %d s', seen.why.down, h.fails,
    FIRST_PROBE_MS / 1000))
end

local function watch_breaker(host, h, seen)
  if seen.ok + seen.alive + seen.busy > 0 then
    change(h, 'quiet', now)
    if seen.timed == 0 and not h.proven then change(h, 'proven', 1) end
  end
  if seen.ok + seen.alive + seen.busy + seen.slow > 0 then return reached(host, h) end
  local tripped = h.trip or h.gone
  if seen.probed and tripped then
    if seen.down > 0 then probe_failed(host, h, seen.why.down) else change(h, 'probing', nil) end
  elseif seen.down > 0 and not tripped then
    trip(host, h, seen)
  end
end

-- The throttle: halve when the host wants less, at most once in a while; add a little while all is well. Near the rate
-- at which it last wanted less, add less. A 429 says so at once; a 503 or silence may be about one page, and says so
-- when it comes often.
local CUT_EVERY_MS, SLOWEST_PACE, CLIMB_S = 1000, 0.1, 20
local SICK_AFTER_429, SICK = 0.05, 0.3

-- Requests a second, of a bucket that has no limit to start from: so many under way, each taking so long.
local function flow_of(b, h)
  return math.max(1, b.inflight) * 1000 / math.max(h.latency or 0, 100)
end

local function cut(bucket, b, h, base, factor, why)
  if now - (b.cut_at or 0) < math.max(CUT_EVERY_MS, (b.latency or 0) * 1.5) then return end
  local from = b.pace or (base > 0 and base or flow_of(b, h))
  if not b.pace then change(b, 'peak', string.format('%.4f', from)) end
  local pace = math.max(from * factor, math.min(SLOWEST_PACE, from))
  change(b, 'pace', string.format('%.4f', pace))
  change(b, 'wall', string.format('%.4f', from))
  change(b, 'cut_at', now)
  change(b, 'pace_at', now)
  note(bucket, 'slowed', string.format('%s: %.3g → %.3g a second', why, from, pace))
end

local function climb(bucket, b, base)
  local top = base > 0 and math.max(base, b.peak or 0) or b.wall * 10
  local step = top / CLIMB_S * math.min(now - b.pace_at, 1000) / 1000
  if b.pace > b.wall * 0.9 and b.pace < b.wall * 1.2 then step = step / 4 end
  local pace = b.pace + step
  if pace < top then
    change(b, 'pace', string.format('%.4f', pace))
    change(b, 'pace_at', now)
    return
  end
  for _, field in ipairs({ 'pace', 'pace_at', 'wall', 'cut_at', 'peak' }) do change(b, field, nil) end
  note(bucket, 'restored', base > 0 and string.format('back to %.3g a second', top) or 'back to no limit')
end

-- The part of the last ten or so answers that were refusals or silence.
local function measure_sickness(b, seen)
  local asked, bad = seen.ok + seen.alive + seen.busy + seen.slow, seen.busy + seen.slow
  if asked == 0 or (bad == 0 and not b.sick) then return b.sick or 0 end
  local kept = 0.9 ^ asked
  local sick = (b.sick or 0) * kept + (1 - kept) * bad / asked
  change(b, 'sick', sick > 0.001 and math.ceil(sick * 1000) / 1000 or nil)
  return sick
end

local function throttle(bucket, b, h, seen)
  local base = states[seen.job] and wanted_rate(states[seen.job], b) or 0
  local sick = measure_sickness(b, seen)
  local slower = seen.timed > 0 and base > 0 and h.latency > 3 * h.calm and h.latency - h.calm > 1000
  if seen.busy + seen.slow > 0 then
    if sick < (seen.why.busy == 'http_429' and SICK_AFTER_429 or SICK) then return end
    cut(bucket, b, h, base, 0.5, seen.why.busy or seen.why.slow)
  elseif slower and (b.pace or base) > base / 8 then
    cut(bucket, b, h, base, 0.75, string.format('answers in %d ms, usually in %d', h.latency, h.calm))
  elseif seen.ok > 0 and b.pace then
    climb(bucket, b, base)
  end
end

local function hold(bucket, b, seen)
  -- A short Retry-After must not cut a longer one that another worker has heard.
  if seen.hold == 0 or now + seen.hold <= (b.hold or 0) then return end
  change(b, 'hold', now + seen.hold)
  note(bucket, 'held', string.format('%s: it asked for %d s', seen.why.hold, seen.hold / 1000))
end

local function return_to(bucket, b, n)
  if b.lost then redis.call('HDEL', host_key(bucket), unpack(b.lost)) end
  lower(bucket, b, n, touched, b.gained)
end

local function learn(host, seen)
  local h = read_host(host)
  local bucket, b = host, h
  if h.group then bucket, b = h.group, read_host(h.group) end
  learn_latency(host, h, seen)
  watch_breaker(host, h, seen)
  throttle(bucket, b, h, seen)
  hold(bucket, b, seen)
  return_to(host, h, seen.n)
  if b ~= h then return_to(bucket, b, seen.n) end
  if h.address then lower(h.address, read_host(h.address), seen.n, touched) end
end

-- --- in the order of the leases ----------------------------------------------------------------------------------

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
for host, seen in pairs(hosts) do learn(host, seen) end
write_slowest()
for job, names in pairs(reasons) do
  for name, n in pairs(names) do redis.call('HINCRBY', reasons_key(job), name, n) end
end
count('late', late)
local jobs = {}
for job in pairs(touched) do jobs[#jobs + 1] = job end
local ended = finish_moves(touched)
for _, job in ipairs(jobs) do mark_rate(job) end
return { late, unpack(ended) }
