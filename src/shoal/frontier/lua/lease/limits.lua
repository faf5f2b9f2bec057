-- lease/limits.lua: how much a host takes now: rate, cap, hold, breaker, address.
local address_cap, introduces, unproven = tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local BURST_MS, INTRODUCE_MS, MET_MS = 100, 200, 3600000
local probes = {} -- host → index of the record that probes it
local queueing = {} -- bucket → how many were put off for its rate

-- A bucket that several jobs want is booked at the highest rate that any of them has lately asked at: the slower ones
-- wait by themselves, and hold up nobody.
local TOP_MS = 10000
local function highest(b, booked)
  local top = b.top and now - b.top_at < TOP_MS and b.top or 0
  if booked < top then return top end
  if booked > top or now - b.top_at > TOP_MS / 10 then
    set(b, 'top', booked)
    set(b, 'top_at', now)
  end
  return booked
end

-- What holds now: below all words, the pace that the host can take.
local function rate_of(j, h, b)
  local rate, source, booked = wanted_rate(j, b, h)
  if h.shared and booked > 0 and not b.rate then booked = highest(b, booked) end
  if b.pace then
    if rate == 0 or b.pace < rate then rate, source = b.pace, 'throttle' end
    if booked == 0 or b.pace < booked then booked = b.pace end
  end
  return rate, source, booked
end

local function parallel_of(j, h, b)
  local parallel = b.parallel or j.parallel or j.parallel0
  if h.parallel and h.parallel > 0 and (parallel == 0 or h.parallel < parallel) then parallel = h.parallel end
  if parallel == 0 and not (h.latency or h.proven) then return unproven end
  return parallel
end

-- Is a probe under way? It is as long as its lease lives, however often that is renewed.
local function probing(h)
  if probes[h.name] then return true end
  local group, index = string.match(h.probing or '', '^(%d+) (%d+)$')
  return group and redis.call('HEXISTS', lease_key(group), index) == 1
end

-- Is the host down? Returns the mark of a lease that is given all the same, or false.
local function breaker(place, h, want)
  if h.gone and h.gone > now then return '!', want end
  if not (h.trip or h.gone) then return '', want end
  local at = h.gone and 0 or h.probe_at or 0
  if at <= now and probing(h) then at = now + RECHECK_MS end
  if at > now then
    wait_until(place, h.name, at)
    return false
  end
  return '?', 1
end

-- How many requests the host takes now from this place, and under what (written into `under`); 0 and the place waits.
local function room(place, want, under)
  local j, h = place.job, place.h
  local b = h.group and read_host(h.group) or h
  if b.paused or h.paused then
    park(place, b.paused and b.name or h.name, true)
    return 0
  end
  local hold = max(b.hold or 0, h.hold or 0)
  if hold > now then
    put_off(place, hold)
    return 0
  end
  local mark, n = breaker(place, h, want)
  if not mark then return 0 end
  local rate, source, booked = rate_of(j, h, b)
  local parallel = parallel_of(j, h, b)
  under.mark, under.rate, under.source, under.booked, under.parallel = mark, rate, source, booked, parallel
  under.b, under.own = b, nil
  if mark == '!' then return n end
  if parallel > 0 then
    if b.inflight >= parallel then
      park(place, b.name)
      return 0, true
    end
    n = min(n, parallel - b.inflight)
  end
  if introduces and mark == '' and not (h.met and (now - h.met < MET_MS or h.inflight > 0)) then
    if h.inflight > 0 then
      wait_until(place, h.name, now + INTRODUCE_MS)
      return 0
    end
    under.mark = '~'
    return 1
  end
  if address_cap > 0 and h.address then
    local a = read_host(h.address)
    if a.inflight >= address_cap then
      park(place, h.address)
      return 0
    end
    n = min(n, address_cap - a.inflight)
  end
  if booked > 0 then
    local interval, slot = 1000 / booked, max(b.slot or 0, now)
    if source == 'robots' and b.robots_at then slot = max(slot, b.robots_at + interval) end
    if slot > now + BURST_MS then
      -- Those who wait for one bucket come one after the other, not all at once.
      put_off(place, slot - BURST_MS + (queueing[b.name] or 0) * interval / 2)
      queueing[b.name] = (queueing[b.name] or 0) + 1
      return 0
    end
    n = min(n, floor((now + BURST_MS - slot) / interval + 1e-6) + 1)
  end
  if rate > 0 and rate < booked then
    under.own = max(tonumber(redis.call('HGET', spend_key(j.name), 't ' .. b.name) or '') or 0, now)
    if under.own > now + BURST_MS then
      put_off(place, under.own - BURST_MS)
      return 0
    end
    n = min(n, floor((now + BURST_MS - under.own) * rate / 1000 + 1e-6) + 1)
  end
  return n
end
