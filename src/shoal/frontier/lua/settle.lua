-- settle.lua: leases come to their end.
-- ARGV blocks of 10: group, index, outcome ('later' = a retry that is no attempt), reason, delay_ms, hold_ms,
--   latency_ms, received bytes, entry of a retry, signal about the host ('?' behind it when the lease was a probe)
-- returns {settlements refused because the lease was lost, job that ended by this call, …}
local BLOCK, SLOWEST = 10, 32
local FIELD = { done = 'done', dead = 'dead', filtered = 'dropped', robots = 'dropped' }
local touched, states, hosts, reasons = {}, {}, {}, {}

local function state_of(job)
  if states[job] == nil then
    local j = redis.call('HMGET', job_key(job), 'state', 'host_pages', 'host_bytes')
    states[job] = j[1] and { state = j[1], pages = (tonumber(j[2]) or 0) > 0, bytes = (tonumber(j[3]) or 0) > 0 } or false
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
  local latency, signal = tonumber(ARGV[at + 6]), ARGV[at + 9]
  local probe = string.sub(signal, -1) == '?'
  signal = string.gsub(signal, '%?$', '')
  seen.n = seen.n + 1
  if tonumber(ARGV[at + 5]) > seen.hold then seen.hold, seen.why.hold = tonumber(ARGV[at + 5]), ARGV[at + 3] end
  if latency > 0 then
    seen.latency = seen.latency + latency
    seen.timed = seen.timed + 1
  end
  if signal ~= '' then
    seen[signal] = seen[signal] + 1
    seen.why[signal] = ARGV[at + 3]
  end
  if probe then seen.probed = true end
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

-- Fields of one hash that change; '' takes one away.
local function Changes()
  local set, gone = {}, {}
  return function(field, value)
    if value == '' then
      gone[#gone + 1] = field
    else
      set[#set + 1] = field
      set[#set + 1] = value
    end
  end, function(key)
    if #set > 0 then redis.call('HSET', key, unpack(set)) end
    if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  end
end

local slowest = {} -- job → {ms, host, …}
local function write_slowest()
  for job, flat in pairs(slowest) do
    redis.call('ZADD', slow_key(job), unpack(flat))
    redis.call('ZREMRANGEBYRANK', slow_key(job), 0, -SLOWEST - 1)
  end
end

local SLOW_MS, FAST_MS = 2000, 1000
local function learn_latency(host, h, seen, change)
  if seen.timed == 0 then return end
  local mean = seen.latency / seen.timed
  local before, calm = tonumber(h.latency or ''), tonumber(h.calm or '')
  seen.now = math.floor(before and before * 0.7 + mean * 0.3 or mean)
  seen.calm = calm and calm * 0.98 + mean * 0.02 or mean
  change('latency', seen.now)
  change('calm', string.format('%.1f', seen.calm))
  slowest[seen.job] = slowest[seen.job] or {}
  table.insert(slowest[seen.job], seen.now)
  table.insert(slowest[seen.job], host)
  if seen.now > SLOW_MS and not (h.slow and h.slow ~= '') then
    change('slow', 1)
    note(host, 'slow_lane', string.format('answers in %d ms', seen.now))
  elseif seen.now < FAST_MS and h.slow and h.slow ~= '' then
    change('slow', '')
    note(host, 'fast_lane', string.format('answers in %d ms', seen.now))
  end
end

-- The breaker: failures in a row trip it, probes find out, and when they fail too the host counts as down.
local FAILURES, PROBES, FIRST_PROBE_MS, LAST_PROBE_MS, DOWN_MS, LONGEST_DOWN_MS = 5, 5, 2000, 30000, 300000, 3600000
local function reached(host, h, change)
  if h.fails then change('fails', '') end
  if not (h.trip or h.gone) then return end
  for _, field in ipairs({ 'trip', 'probe_at', 'probing', 'gone', 'downs' }) do change(field, '') end
  h.gone = nil
  note(host, 'reached', 'it answers again')
end

local function probe_failed(host, h, reason, change)
  local trip = (tonumber(h.trip or '') or 0) + 1
  change('probing', '')
  if trip <= PROBES and not h.gone then
    local delay = math.min(FIRST_PROBE_MS * 2 ^ trip, LAST_PROBE_MS)
    change('trip', trip)
    change('probe_at', now + delay)
    note(host, 'tripped', string.format('%s again: next probe in %d s', reason, delay / 1000))
    return
  end
  local downs = (tonumber(h.downs or '') or 0) + 1
  local rest = math.min(DOWN_MS * 2 ^ (downs - 1), LONGEST_DOWN_MS)
  change('downs', downs)
  change('gone', now + rest)
  h.gone = now + rest
  note(host, 'down', string.format('%s in every probe: its requests are given up for %d s', reason, rest / 1000))
end

local function watch_breaker(host, h, seen, change)
  if seen.ok + seen.alive + seen.busy > 0 then
    change('quiet', now)
    if seen.timed == 0 and not h.proven then change('proven', 1) end
  end
  if seen.ok + seen.alive + seen.busy + seen.slow > 0 then return reached(host, h, change) end
  local tripped = h.trip or h.gone
  if seen.probed and tripped then
    if seen.down > 0 then probe_failed(host, h, seen.why.down, change) else change('probing', '') end
  elseif seen.down > 0 and not tripped then
    local fails = (tonumber(h.fails or '') or 0) + seen.down
    change('fails', fails)
    if fails >= FAILURES then
      change('trip', 0)
      change('probe_at', now + FIRST_PROBE_MS)
      note(host, 'tripped', string.format('%s %d times in a row: next probe in %d s', seen.why.down, fails,
        FIRST_PROBE_MS / 1000))
    end
  end
end

-- The throttle: halve when the host wants less, at most once in a while; add a little while all is well. Near the rate
-- at which it last wanted less, add less. A 429 says so at once; a 503 or silence may be about one page, and says so
-- when it comes often.
local CUT_EVERY_MS, SLOWEST_PACE, CLIMB_S = 1000, 0.1, 20
local SICK_AFTER_429, SICK = 0.05, 0.3
local function measure_flow(b, seen, change)
  local count, since = (tonumber(b.flow_n or '') or 0) + seen.n, tonumber(b.flow_at or '') or now
  if now - since < 1000 then
    change('flow_n', count)
    change('flow_at', since)
    return tonumber(b.flow or '') or math.max(1, count * 1000 / math.max(now - since, 200))
  end
  local flow = count * 1000 / (now - since)
  change('flow', string.format('%.3f', flow))
  change('flow_n', 0)
  change('flow_at', now)
  return flow
end

local function cut(bucket, b, seen, change, factor, why, flow)
  local base, latency = tonumber(b.base or '') or 0, seen.now or tonumber(b.latency or '') or 0
  if now - (tonumber(b.cut_at or '') or 0) < math.max(CUT_EVERY_MS, latency * 1.5) then return end
  local from = tonumber(b.pace or '') or (base > 0 and base or flow or SLOWEST_PACE * 2)
  local pace = math.max(from * factor, math.min(SLOWEST_PACE, from))
  change('pace', string.format('%.4f', pace))
  change('wall', string.format('%.4f', from))
  change('cut_at', now)
  change('pace_at', now)
  note(bucket, 'slowed', string.format('%s: %.3g → %.3g a second', why, from, pace))
end

local function climb(bucket, b, change)
  local pace, wall = tonumber(b.pace), tonumber(b.wall)
  local base = tonumber(b.base or '') or 0
  local top = base > 0 and base or wall * 10
  local step = top / CLIMB_S * math.min(now - tonumber(b.pace_at), 1000) / 1000
  if pace > wall * 0.9 and pace < wall * 1.2 then step = step / 4 end
  pace = pace + step
  if pace < top then
    change('pace', string.format('%.4f', pace))
    change('pace_at', now)
    return
  end
  for _, field in ipairs({ 'pace', 'pace_at', 'wall', 'cut_at' }) do change(field, '') end
  note(bucket, 'restored', string.format('back to %s', base > 0 and string.format('%.3g a second', base) or 'no limit'))
end

-- The part of the last ten or so answers that were refusals or silence.
local function measure_sickness(b, seen, change)
  local asked = seen.ok + seen.alive + seen.busy + seen.slow
  local before, kept = tonumber(b.sick or '') or 0, 0.9 ^ asked
  local sick = asked == 0 and before or before * kept + (1 - kept) * (seen.busy + seen.slow) / asked
  if sick > 0.001 then change('sick', string.format('%.3f', sick)) elseif b.sick then change('sick', '') end
  return sick
end

local function throttle(bucket, b, seen, change)
  local base = tonumber(b.base or '')
  local flow = base == 0 and measure_flow(b, seen, change) or nil
  local sick = measure_sickness(b, seen, change)
  if seen.busy + seen.slow > 0 then
    if sick < (seen.why.busy == 'http_429' and SICK_AFTER_429 or SICK) then return end
    cut(bucket, b, seen, change, 0.5, seen.why.busy or seen.why.slow, flow)
  elseif base and base > 0 and seen.now and seen.now > 3 * seen.calm and seen.now - seen.calm > 1000
    and (tonumber(b.pace or '') or base) > base / 8 then
    cut(bucket, b, seen, change, 0.75, string.format('answers in %d ms, usually in %d', seen.now, seen.calm), flow)
  elseif seen.ok > 0 and b.pace then
    climb(bucket, b, change)
  end
end

local function hold(bucket, b, seen, change)
  if seen.hold == 0 then return end
  -- A short Retry-After must not cut a longer one that another worker has heard.
  local before = tonumber(b.hold or '') or 0
  if now + seen.hold <= before then return end
  change('hold', now + seen.hold)
  b.hold = now + seen.hold
  note(bucket, 'held', string.format('%s: it asked for %d s', seen.why.hold, seen.hold / 1000))
end

local function learn(host, seen)
  local h = read_host(host)
  local change, write = Changes()
  learn_latency(host, h, seen, change)
  watch_breaker(host, h, seen, change)
  if h.group then
    local b = read_host(h.group)
    local change_group, write_group = Changes()
    throttle(h.group, b, seen, change_group)
    hold(h.group, b, seen, change_group)
    write_group(host_key(h.group))
  else
    throttle(host, h, seen, change)
    hold(host, h, seen, change)
  end
  write(host_key(host))
  host_returned(host, h, seen.n, touched)
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
