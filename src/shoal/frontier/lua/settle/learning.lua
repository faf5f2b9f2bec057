-- settle/learning.lua: what the outcomes of a batch say about a host: its lane, its breaker, its pace.
local SLOWEST = 32

local slowest = {} -- job → {least = ms that it takes to be among them, among = {host = true}, ms, host, …}
local function note_slowest(job, host, latency)
  local slow = slowest[job]
  if not slow then
    local known = redis.call('ZRANGE', slow_key(job), 0, -1, 'WITHSCORES')
    slow = { least = #known < 2 * SLOWEST and -1 or tonumber(known[2]), among = {} }
    for i = 1, #known, 2 do slow.among[known[i]] = true end
    slowest[job] = slow
  end
  if latency <= slow.least and not slow.among[host] then return end
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
  h.latency = floor(h.latency and h.latency * 0.7 + mean * 0.3 or mean)
  h.calm = floor(10 * (h.calm and h.calm * 0.98 + mean * 0.02 or mean)) / 10
  changed(h)
  note_slowest(seen.job, host, h.latency)
  if h.latency > SLOW_MS and not h.slow then
    set(h, 'slow', 1)
    note(host, 'slow_lane', string.format('answers in %d ms', h.latency))
  elseif h.latency < FAST_MS and h.slow then
    set(h, 'slow', nil)
    note(host, 'fast_lane', string.format('answers in %d ms', h.latency))
  end
end

-- The breaker: failures in a row trip it, probes find out, and when they fail too the host counts as down.
local FAILURES, PROBES, FIRST_PROBE_MS, LAST_PROBE_MS, DOWN_MS, LONGEST_DOWN_MS = 5, 5, 2000, 30000, 300000, 3600000
local function reached(host, h)
  if h.fails then set(h, 'fails', nil) end
  if not (h.trip or h.gone) then return end
  for _, field in ipairs({ 'trip', 'probe_at', 'probing', 'gone', 'downs' }) do set(h, field, nil) end
  note(host, 'reached', 'it answers again')
end

local function probe_failed(host, h, reason)
  local trip = (h.trip or 0) + 1
  set(h, 'probing', nil)
  if trip < PROBES and not h.gone then
    local delay = min(FIRST_PROBE_MS * 2 ^ trip, LAST_PROBE_MS)
    set(h, 'trip', trip)
    set(h, 'probe_at', now + delay)
    note(host, 'tripped', string.format('%s again: next probe in %d s', reason, delay / 1000))
    return
  end
  set(h, 'downs', (h.downs or 0) + 1)
  local rest = min(DOWN_MS * 2 ^ (h.downs - 1), LONGEST_DOWN_MS)
  set(h, 'gone', now + rest)
  note(host, 'down', string.format('%s in every probe: its requests are given up for %d s', reason, rest / 1000))
end

local function trip(host, h, seen)
  set(h, 'fails', (h.fails or 0) + seen.down)
  if h.fails < FAILURES then return end
  set(h, 'trip', 0)
  set(h, 'probe_at', now + FIRST_PROBE_MS)
  note(host, 'tripped', string.format('%s %d times in a row: next probe in %d s', seen.why.down, h.fails,
    FIRST_PROBE_MS / 1000))
end

local function watch_breaker(host, h, seen)
  if seen.ok or seen.alive or seen.busy then
    set(h, 'quiet', now)
    if seen.timed == 0 and not h.proven then set(h, 'proven', 1) end
  end
  if seen.ok or seen.alive or seen.busy or seen.slow then return reached(host, h) end
  local tripped = h.trip or h.gone
  if seen.probed and tripped then
    if seen.down then probe_failed(host, h, seen.why.down) else set(h, 'probing', nil) end
  elseif seen.down and not tripped then
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
  return max(1, b.inflight) * 1000 / max(h.latency or 0, 100)
end

local function cut(bucket, b, h, base, factor, why)
  if now - (b.cut_at or 0) < max(CUT_EVERY_MS, (b.latency or 0) * 1.5) then return end
  local from = b.pace or (base > 0 and base or flow_of(b, h))
  if not b.pace then set(b, 'peak', from) end
  local pace = max(from * factor, min(SLOWEST_PACE, from))
  set(b, 'pace', pace)
  set(b, 'wall', from)
  set(b, 'cut_at', now)
  set(b, 'pace_at', now)
  note(bucket, 'slowed', string.format('%s: %.3g → %.3g a second', why, from, pace))
end

local function climb(bucket, b, base)
  local top = base > 0 and max(base, b.peak or 0) or b.wall * 10
  local step = top / CLIMB_S * min(now - b.pace_at, 1000) / 1000
  if b.pace > b.wall * 0.9 and b.pace < b.wall * 1.2 then step = step / 4 end
  local pace = b.pace + step
  if pace < top then
    set(b, 'pace', pace)
    set(b, 'pace_at', now)
    return
  end
  for _, field in ipairs({ 'pace', 'pace_at', 'wall', 'cut_at', 'peak' }) do set(b, field, nil) end
  note(bucket, 'restored', base > 0 and string.format('back to %.3g a second', top) or 'back to no limit')
end

-- The part of the last ten or so answers that were refusals or silence.
local function measure_sickness(b, seen)
  local bad = (seen.busy or 0) + (seen.slow or 0)
  local asked = bad + (seen.ok or 0) + (seen.alive or 0)
  if asked == 0 or (bad == 0 and not b.sick) then return b.sick or 0 end
  local kept = 0.9 ^ asked
  local sick = (b.sick or 0) * kept + (1 - kept) * bad / asked
  set(b, 'sick', sick > 0.001 and ceil(sick * 1000) / 1000 or nil)
  return sick
end

local function throttle(bucket, b, h, seen)
  local sick = measure_sickness(b, seen)
  local slower = seen.timed > 0 and h.latency - h.calm > 1000 and h.latency > 3 * h.calm
  if not (slower or seen.busy or seen.slow or b.pace) then return end
  local base = seen.limits and wanted_rate(seen.limits, b) or 0
  if seen.busy or seen.slow then
    if sick < (seen.why.busy == 'http_429' and SICK_AFTER_429 or SICK) then return end
    cut(bucket, b, h, base, 0.5, seen.why.busy or seen.why.slow)
  elseif slower and base > 0 and (b.pace or base) > base / 8 then
    cut(bucket, b, h, base, 0.75, string.format('answers in %d ms, usually in %d', h.latency, h.calm))
  elseif seen.ok and b.pace then
    climb(bucket, b, base)
  end
end

local function hold(bucket, b, seen)
  -- A short Retry-After must not cut a longer one that another worker has heard.
  if seen.hold == 0 or now + seen.hold <= (b.hold or 0) then return end
  set(b, 'hold', now + seen.hold)
  note(bucket, 'held', string.format('%s: it asked for %d s', seen.why.hold, seen.hold / 1000))
end

-- Time that was booked for requests that were not sent is free again, and who waited for it may ask. A bucket that
-- several jobs share may have been booked at another rate than this job's: there it is left as it is.
local function give_time_back(host, h, b, seen, touched)
  local own = tonumber(redis.call('HGET', spend_key(seen.job), 't ' .. b.name) or '')
  if own then
    redis.call('HSET', spend_key(seen.job), 't ' .. b.name, string.format('%.3f', max(now, own - seen.unasked)))
  end
  if b.slot and seen.limits and not h.shared then
    local _, _, booked = wanted_rate(seen.limits, b, h)
    local interval = seen.unasked / seen.spared
    if booked > 0 then interval = min(interval, 1000 / booked) end
    set(b, 'slot', max(now, b.slot - seen.spared * interval))
  end
  wake(seen.job, host, false, touched)
  wake(seen.job, host, true, touched)
end

local function learn(host, seen, touched)
  local h = read_host(host)
  local bucket, b = host, h
  if h.group then bucket, b = h.group, read_host(h.group) end
  local unproven = not (h.latency or h.proven)
  learn_latency(host, h, seen)
  watch_breaker(host, h, seen)
  throttle(bucket, b, h, seen)
  hold(bucket, b, seen)
  if seen.unasked > 0 then give_time_back(host, h, b, seen, touched) end
  host_returned(h, seen.n, touched)
  -- One that has answered for the first time need not be spared any more: who waited because of that may all come.
  if unproven and (h.latency or h.proven) and b.waited then wake_waiters(b, 100000, touched) end
end
