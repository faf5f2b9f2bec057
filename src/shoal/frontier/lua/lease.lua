-- lease.lua: give one worker the requests that may be fetched now.
-- ARGV[1] limit   ARGV[2] lease_ms   ARGV[3] requests at once to one address (0 = any)
-- ARGV[4] 1 when a host must be introduced (`meet`) before it is asked
-- ARGV[5] requests at once to a host that has no cap and has never answered
-- ARGV[6..] pairs: queue, requests from it at most; the most urgent queue first
-- returns {group, ms until more is due (0 = at once, -1 = nothing waits), expired leases,
--   {job that ended by this call, …}, {'queue mark rate parallel source count', …}, {record, …}}
--
-- For each queue: the due tenants by their turn (virtual time, so that shares follow weights), of each its due jobs by
-- theirs, of each job its ready hosts, of each host as many entries as its rate, its cap and the batch allow. A host
-- that several jobs want goes to the one whose turn it is on that host.
local limit, lease_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local address_cap, introduces, unproven = tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local MAX_JOBS, MAX_HOSTS, PASSES, QUANTUM, RIVALS = 64, 256, 8, 8, 8
local BURST_MS, RECHECK_MS, INTRODUCE_MS, SILENT_MS, MET_MS = 100, 10000, 200, 2000, 3600000
local RANK = { high = 0, batch = 1, slow = 2 }
local rank = 0 -- of the queue that is being served: the urgent are woken first
local records, chunks, taken_of, touched, shrunk, ended, probes = {}, {}, {}, {}, {}, {}, {}

-- --- what is known: each job and host is read once ---------------------------------------------------------------

local known_jobs, known_hosts, changed = {}, {}, {}

local function job_of(job)
  local j = known_jobs[job]
  if j then return j end
  local v = redis.call('HMGET', job_key(job), 'state', 'queue', 'tenant', 'weight', 'rate', 'parallel', 'rate0',
    'parallel0', 'robots', 'bytes', 'received', 'deadline', 'host_bytes', 'host_seconds', 'ended')
  j = { name = job, state = v[1], queue = v[2], tenant = v[3], weight = tonumber(v[4]) or 1, rate = tonumber(v[5] or ''),
    parallel = tonumber(v[6] or ''), rate0 = tonumber(v[7]) or 0, parallel0 = tonumber(v[8]) or 0, robots = v[9] == '1',
    bytes = tonumber(v[10]) or 0, received = tonumber(v[11]) or 0, deadline = tonumber(v[12] or ''),
    host_bytes = tonumber(v[13]) or 0, host_seconds = tonumber(v[14]) or 0 }
  known_jobs[job] = j
  return j
end

local function host_of(host)
  local h = known_hosts[host]
  if h then return h end
  h = read_host(host)
  h.name = host
  known_hosts[host] = h
  return h
end

-- A field set twice is written twice, and the last counts.
local function set(h, field, value)
  h[field] = value
  local writes = changed[h.name]
  if not writes then
    writes = {}
    changed[h.name] = writes
  end
  writes[#writes + 1] = field
  writes[#writes + 1] = value
end

local function write_hosts()
  for host, writes in pairs(changed) do redis.call('HSET', host_key(host), unpack(writes)) end
end

local function flag(value) return value ~= nil and value ~= 0 end

-- --- waiting -----------------------------------------------------------------------------------------------------

-- A place is a (job, host) in the list in which it stands: ready, or lag when the host is slow.
local function put_off(place, at)
  redis.call('ZADD', place.list, math.ceil(at), place.host)
end

-- Wait for room in a bucket; who is not woken looks again by himself, unless it takes an operator to make room.
local function park(place, bucket, paused)
  put_off(place, paused and NEVER or now + RECHECK_MS)
  redis.call('ZADD', waiters_key(bucket), 'NX', place.rank * 1e13 + now, place.job.name .. ' ' .. place.host)
  if paused then redis.call('PERSIST', waiters_key(bucket)) else redis.call('EXPIRE', waiters_key(bucket), DAY_S) end
  if not host_of(bucket).waited then set(host_of(bucket), 'waited', 1) end
end

local function wait_until(place, bucket, at)
  park(place, bucket)
  put_off(place, at)
end

-- --- limits ------------------------------------------------------------------------------------------------------

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
  if flag(h.shared) and booked > 0 and not b.rate then booked = highest(b, booked) end
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

-- How many requests the host takes now from this place, and under what; 0 and the place waits.
local function room(place, want)
  local j, h = place.job, host_of(place.host)
  local b = h.group and host_of(h.group) or h
  if b.paused or h.paused then
    park(place, b.paused and b.name or h.name, true)
    return 0
  end
  local hold = math.max(b.hold or 0, h.hold or 0)
  if hold > now then
    put_off(place, hold)
    return 0
  end
  local mark, n = breaker(place, h, want)
  if not mark then return 0 end
  local rate, source, booked = rate_of(j, h, b)
  local parallel = parallel_of(j, h, b)
  local under = { mark = mark, rate = rate, source = source, booked = booked, parallel = parallel, b = b }
  if mark == '!' then return n, under end
  if parallel > 0 then
    if b.inflight >= parallel then
      park(place, b.name)
      return 0, 'full'
    end
    n = math.min(n, parallel - b.inflight)
  end
  if introduces and mark == '' and not (h.met and (now - h.met < MET_MS or h.inflight > 0)) then
    if h.inflight > 0 then
      wait_until(place, h.name, now + INTRODUCE_MS)
      return 0
    end
    under.mark = '~'
    return 1, under
  end
  if address_cap > 0 and h.address then
    local a = host_of(h.address)
    if a.inflight >= address_cap then
      park(place, h.address)
      return 0
    end
    n = math.min(n, address_cap - a.inflight)
  end
  if booked > 0 then
    local interval, slot = 1000 / booked, math.max(b.slot or 0, now)
    if source == 'robots' and b.robots_at then slot = math.max(slot, b.robots_at + interval) end
    if slot > now + BURST_MS then
      -- Those who wait for one bucket come one after the other, not all at once.
      put_off(place, slot - BURST_MS + (b.waiting or 0) * interval / 2)
      b.waiting = (b.waiting or 0) + 1
      return 0
    end
    n = math.min(n, math.floor((now + BURST_MS - slot) / interval + 1e-6) + 1)
  end
  if rate > 0 and rate < booked then
    under.own = math.max(tonumber(redis.call('HGET', spend_key(j.name), 't ' .. b.name) or '') or 0, now)
    if under.own > now + BURST_MS then
      put_off(place, under.own - BURST_MS)
      return 0
    end
    n = math.min(n, math.floor((now + BURST_MS - under.own) * rate / 1000 + 1e-6) + 1)
  end
  return n, under
end

-- --- budgets -----------------------------------------------------------------------------------------------------

-- Why a job gets no more requests, if so.
local function over_budget(j)
  return (j.bytes > 0 and j.received >= j.bytes and 'over_bytes')
    or (j.deadline and now >= j.deadline and 'over_seconds')
end

-- Why a host gets no more requests of this job, if so.
local function host_spent(j, host)
  if j.host_bytes == 0 and j.host_seconds == 0 then return nil end
  local spent = redis.call('HMGET', spend_key(j.name), 'b ' .. host, 's ' .. host)
  if j.host_bytes > 0 and (tonumber(spent[1]) or 0) >= j.host_bytes then return 'over_host_bytes' end
  if j.host_seconds > 0 and spent[2] and now - tonumber(spent[2]) >= j.host_seconds * 1000 then
    return 'over_host_seconds'
  end
end

-- --- whose turn it is on a host ----------------------------------------------------------------------------------

local function lowest(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] or '0'
end

local function join_rivals(queue, host, j)
  local tenants, jobs = rivals_key(queue, host), rival_jobs_key(queue, host, j.tenant)
  if redis.call('ZSCORE', jobs, j.name) then return end
  redis.call('ZADD', tenants, 'NX', lowest(tenants), j.tenant)
  redis.call('ZADD', jobs, 'NX', lowest(jobs), j.name)
  redis.call('EXPIRE', tenants, DAY_S)
  redis.call('EXPIRE', jobs, DAY_S)
end

-- Who has nothing left on the host leaves; one that remains alone is no rival.
local function leave_rivals(queue, host, tenant, job)
  local tenants, jobs = rivals_key(queue, host), rival_jobs_key(queue, host, tenant)
  redis.call('ZREM', jobs, job)
  if redis.call('EXISTS', jobs) == 0 then redis.call('ZREM', tenants, tenant) end
  local left = redis.call('ZRANGE', tenants, 0, 1)
  if #left == 1 and redis.call('ZCARD', rival_jobs_key(queue, host, left[1])) == 1 then
    redis.call('UNLINK', tenants, rival_jobs_key(queue, host, left[1]))
    left = {}
  end
  if #left == 0 then set(host_of(host), 'shared', 0) end
end

local function has_entries(job, host)
  return redis.call('EXISTS', queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2)) > 0
end

-- Can something of the job be served from this queue? Of a batch, slow hosts are in the lane beside it.
local function stands_in(queue, j)
  return j.state == 'running' and (j.queue == queue or slow_lane(j.queue) == queue)
end

-- May this rival be served in place of the one whose place was looked at? One that has nothing here any more leaves; one
-- that asks for less than the bucket gives waits by itself.
local function rival_place(queue, place, tenant, name, booked)
  if name == place.job.name then return place end
  local j = job_of(name)
  if not stands_in(queue, j) or not has_entries(name, place.host) then
    leave_rivals(queue, place.host, tenant, name)
    return nil
  end
  if over_budget(j) or host_spent(j, place.host) then return nil end
  local list = j.queue == queue and ready_key(name) or lag_key(name)
  local at = tonumber(redis.call('ZSCORE', list, place.host) or '')
  if not at or (at > now and j.rate and j.rate < booked) then return nil end
  return { job = j, host = place.host, list = list, queue = queue, rank = place.rank }
end

-- Does the place share its host with other jobs? Then it is a rival from now on.
local function contend(queue, place)
  local h = host_of(place.host)
  if not flag(h.shared) then
    if not h.owner or h.owner == place.job.name then return false end
    local owner = job_of(h.owner)
    if not stands_in(queue, owner) then return false end
    set(h, 'shared', 1)
    join_rivals(queue, place.host, owner)
  end
  join_rivals(queue, place.host, place.job)
  return true
end

local function turn_on_host(queue, place, booked)
  if not contend(queue, place) then return place end
  for _, tenant in ipairs(redis.call('ZRANGE', rivals_key(queue, place.host), 0, RIVALS - 1)) do
    for _, name in ipairs(redis.call('ZRANGE', rival_jobs_key(queue, place.host, tenant), 0, RIVALS - 1)) do
      local found = rival_place(queue, place, tenant, name, booked)
      if found then return found end
    end
  end
  return place
end

local weights = {}
local function weight_of_tenant(tenant)
  if not weights[tenant] then weights[tenant] = tonumber(redis.call('HGET', TENANTS, tenant) or '') or 1 end
  return weights[tenant]
end

local function charge_on_host(queue, host, j, n)
  redis.call('ZADD', rivals_key(queue, host), 'XX', 'INCR', n / weight_of_tenant(j.tenant), j.tenant)
  redis.call('ZADD', rival_jobs_key(queue, host, j.tenant), 'XX', 'INCR', n / j.weight, j.name)
end

-- --- taking ------------------------------------------------------------------------------------------------------

-- Virtual times: queue → tenant, queue → job; and whose turn has moved on: queue → tenant → jobs.
local tenant_turns, job_turns, charged = {}, {}, {}

local function turns_of(turns, queue)
  turns[queue] = turns[queue] or {}
  return turns[queue]
end

local function charge(queue, j, n)
  local tenants, jobs = turns_of(tenant_turns, queue), turns_of(job_turns, queue)
  -- A rival may be served although neither it nor its tenant was looked at.
  local tenant_turn = tenants[j.tenant] or tonumber(redis.call('ZSCORE', turn_key(queue), j.tenant) or 0)
  local job_turn = jobs[j.name] or tonumber(redis.call('ZSCORE', turn_jobs_key(queue, j.tenant), j.name) or 0)
  tenants[j.tenant] = tenant_turn + n / weight_of_tenant(j.tenant)
  jobs[j.name] = job_turn + n / j.weight
  local moved = turns_of(charged, queue)
  moved[j.tenant] = moved[j.tenant] or {}
  moved[j.tenant][j.name] = true
end

local function write_turns()
  for queue, tenants in pairs(charged) do
    for tenant, jobs in pairs(tenants) do
      redis.call('ZADD', turn_key(queue), string.format('%.6f', tenant_turns[queue][tenant]), tenant)
      for job in pairs(jobs) do
        redis.call('ZADD', turn_jobs_key(queue, tenant), string.format('%.6f', job_turns[queue][job]), job)
      end
    end
  end
end

-- Take at most n entries, the most urgent level first; tells whether more are left.
local function pop(job, host, n)
  local got, first, normal, last = 0, queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2)
  while got < n do
    local popped = redis.call('LMPOP', 3, first, normal, last, 'LEFT', 'COUNT', n - got)
    if not popped then return got, false end
    local start = job .. ' ' .. host .. ' ' .. string.sub(popped[1], -1) .. ' '
    for _, entry in ipairs(popped[2]) do
      records[#records + 1] = start .. entry
      got = got + 1
    end
  end
  return got, redis.call('EXISTS', first, normal, last) > 0
end

-- When may the host be asked again for this job?
local function reschedule(place, under, more)
  local j, b = place.job, under.b
  if not more then
    redis.call('ZREM', place.list, place.host)
    if flag(host_of(place.host).shared) then leave_rivals(place.queue, place.host, j.tenant, j.name) end
  elseif under.mark == '~' then
    wait_until(place, place.host, now + INTRODUCE_MS)
  elseif under.mark == '!' then
    put_off(place, now)
  elseif under.parallel > 0 and b.inflight >= under.parallel then
    park(place, b.name)
  else
    local at = now
    if under.booked > 0 then at = math.max(at, (b.slot or 0) - BURST_MS) end
    if under.own then at = math.max(at, under.own - BURST_MS) end
    put_off(place, at)
  end
end

local function count_in_flight(h, b, got)
  if h.inflight == 0 then set(h, 'quiet', now) end
  if not h.owner then
    listed[#listed + 1] = now
    listed[#listed + 1] = h.name
  end
  set(h, 'inflight', h.inflight + got)
  if b ~= h then set(b, 'inflight', b.inflight + got) end
  if h.address then
    local a = host_of(h.address)
    set(a, 'inflight', a.inflight + got)
  end
end

local function book(place, under, got)
  local h, b = host_of(place.host), under.b
  count_in_flight(h, b, got)
  if h.owner ~= place.job.name then set(h, 'owner', place.job.name) end
  if under.mark == '?' then probes[h.name] = #records end
  if under.mark == '!' or under.mark == '~' then return end
  if under.booked > 0 then
    local slot = math.max(b.slot or 0, now) + got * 1000 / under.booked
    set(b, 'slot', string.format('%.3f', slot))
    b.slot = slot
  end
  if under.own then
    under.own = under.own + got * 1000 / under.rate
    redis.call('HSET', spend_key(place.job.name), 't ' .. b.name, string.format('%.3f', under.own))
  end
end

-- Under what the next so many records were leased.
local function note_terms(queue, under, got)
  local last = chunks[#chunks]
  if last and last.queue == queue and last.mark == under.mark and last.rate == under.rate
    and last.parallel == under.parallel and last.source == under.source then
    last.got = last.got + got
    return
  end
  under.queue, under.got = queue, got
  chunks[#chunks + 1] = under
end

local function write_terms(under)
  return string.format('%s .%s %s %d %s %d', under.queue, under.mark, under.rate, under.parallel, under.source, under.got)
end

local function serve_place(place, n, under)
  local j, queue = place.job, place.queue
  local got, more = pop(j.name, place.host, n)
  if got > 0 then
    book(place, under, got)
    note_terms(queue, under, got)
    taken_of[j.name] = (taken_of[j.name] or 0) + got
    touched[j.name] = true
    charge(queue, j, got)
    if flag(host_of(place.host).shared) then charge_on_host(queue, place.host, j, got) end
    if j.host_seconds > 0 then redis.call('HSETNX', spend_key(j.name), 's ' .. place.host, now) end
  end
  reschedule(place, under, more)
  return got
end

-- --- what is beyond a budget is dropped ---------------------------------------------------------------------------

local function drop_host(place, reason)
  local dropped = 0
  for level = 0, 2 do
    local queue = queue_key(place.job.name, place.host, level)
    dropped = dropped + redis.call('LLEN', queue)
    redis.call('UNLINK', queue)
  end
  redis.call('ZREM', place.list, place.host)
  add(place.job.name, 'queued', -dropped)
  add(place.job.name, 'dropped', dropped)
  redis.call('HINCRBY', reasons_key(place.job.name), 'filtered:' .. reason, dropped)
  touched[place.job.name], shrunk[place.job.name] = true, true
end

-- A job that has used up its bytes or its time: what waits is dropped.
local function job_spent(j)
  local reason = over_budget(j)
  if not reason then return false end
  write_sums()
  local dropped = drop_waiting(j.name)
  if dropped > 0 then redis.call('HINCRBY', reasons_key(j.name), 'filtered:' .. reason, dropped) end
  redis.call('HSET', job_key(j.name), 'spent', reason)
  touched[j.name], shrunk[j.name] = true, true
  return true
end

-- --- lanes -------------------------------------------------------------------------------------------------------

-- A slow host leaves the lane of a job for the slow one, and comes back. True when the place has moved.
local function moves_lane(place)
  local j, h = place.job, host_of(place.host)
  local home = j.queue == place.queue
  if home and not slow_lane(j.queue) then return false end
  if home and not flag(h.slow) and h.inflight > 0 and now - (h.quiet or now) > SILENT_MS then
    set(h, 'slow', 1)
    note(place.host, 'slow_lane', string.format('no answer for %d ms', now - h.quiet))
  end
  if home == not flag(h.slow) then return false end
  local to = home and lag_key(j.name) or ready_key(j.name)
  local at = redis.call('ZSCORE', place.list, place.host)
  redis.call('ZREM', place.list, place.host)
  redis.call('ZADD', to, 'NX', at, place.host)
  touched[j.name] = true
  return true
end

-- --- rounds ------------------------------------------------------------------------------------------------------

local function take_from_host(queue, j, host, list, want)
  local place = { job = j, host = host, list = list, queue = queue, rank = rank }
  if moves_lane(place) then return 0 end
  local reason = host_spent(j, host)
  if reason then
    drop_host(place, reason)
    return 0
  end
  local n, under = room(place, want)
  if n == 0 then
    contend(queue, place) -- who never comes first must be known to those who do
    return 0
  end
  if under.mark == '' then
    local rival = turn_on_host(queue, place, under.booked)
    if rival ~= place then
      touched[rival.job.name] = true
      local m, terms = room(rival, want)
      if m > 0 then
        if host_of(host).waited then redis.call('ZREM', waiters_key(host), rival.job.name .. ' ' .. host) end
        local got = serve_place(rival, m, terms)
        room(place, 1) -- the place looked at waits for what is left, or is served in the next pass
        return got
      end
      if terms == 'full' then -- whose turn it is asks for fewer at once: the others wait until it can be served
        park(place, under.b.name)
        return 0
      end
    end
  end
  return serve_place(place, n, under)
end

-- Delayed requests whose time has come go to the front level of their queues.
local function promote(job)
  local due = redis.call('ZRANGEBYSCORE', delayed_key(job), '-inf', now, 'LIMIT', 0, 500)
  if #due == 0 then return end
  redis.call('ZREM', delayed_key(job), unpack(due))
  for _, record in ipairs(due) do
    local _, host, _, entry = split_record(record)
    enqueue(job, host, 0, { entry }, false)
  end
  add(job, 'delayed', -#due)
  add(job, 'queued', #due)
end

local function take_from_job(queue, name, want)
  local j = job_of(name)
  touched[name] = true
  if j.state ~= 'running' or job_spent(j) then return 0 end
  local home = j.queue == queue
  if home then promote(name) end
  local got, list = 0, home and ready_key(name) or lag_key(name)
  for _ = 1, PASSES do
    local hosts = redis.call('ZRANGEBYSCORE', list, '-inf', now, 'LIMIT', 0, MAX_HOSTS)
    if #hosts == 0 then break end
    local share = math.ceil((want - got) / #hosts)
    for _, host in ipairs(hosts) do
      got = got + take_from_host(queue, j, host, list, math.min(share, want - got))
      if got >= want then return got end
    end
  end
  return got
end

-- The due members of a rotation by their turn. One that was idle starts at the present virtual time: it neither saves
-- up nor waits. Of more than fit, those that wait longest are looked at, and every other time any.
local function in_turn(due, turn, clock, turns)
  local count = redis.call('ZCOUNT', due, '-inf', now)
  if count == 0 then return {} end
  local offset = count > MAX_JOBS and now % 2 == 1 and now % 100003 * 7919 % (count - MAX_JOBS + 1) or 0
  local names = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', offset, MAX_JOBS)
  local present = tonumber(redis.call('GET', clock) or 0)
  local scores = redis.call('ZMSCORE', turn, unpack(names))
  local first, rank_of = NEVER, {}
  for i, name in ipairs(names) do
    rank_of[name] = i
    turns[name] = math.max(turns[name] or tonumber(scores[i] or 0), present)
    first = math.min(first, turns[name])
  end
  if first > present then redis.call('SET', clock, string.format('%.6f', first)) end
  table.sort(names, function(a, b)
    if turns[a] == turns[b] then return rank_of[a] < rank_of[b] end
    return turns[a] < turns[b]
  end)
  return names
end

-- Let the members of a rotation take in turn, until they have enough or nothing is left.
local function share(names, turns, want, take)
  local got = 0
  while #names > 0 and got < want do
    local quota = math.min(want - got, math.max(QUANTUM, math.ceil((want - got) / #names)))
    local name = table.remove(names, 1)
    local taken = take(name, quota)
    got = got + taken
    if taken >= quota then
      local place = 1
      while names[place] and turns[names[place]] <= turns[name] do place = place + 1 end
      table.insert(names, place, name)
    end
  end
  return got
end

local function take_from_tenant(queue, tenant, want)
  local turns = turns_of(job_turns, queue)
  local jobs = in_turn(due_jobs_key(queue, tenant), turn_jobs_key(queue, tenant), clock_jobs_key(queue, tenant), turns)
  return share(jobs, turns, want, function(job, quota) return take_from_job(queue, job, quota) end)
end

local function serve(queue, most)
  local turns = turns_of(tenant_turns, queue)
  local tenants = in_turn(due_key(queue), turn_key(queue), clock_key(queue), turns)
  return share(tenants, turns, most, function(tenant, quota) return take_from_tenant(queue, tenant, quota) end)
end

-- --- the answer --------------------------------------------------------------------------------------------------

-- A lost sequence starts at the time, not at 1: a lease from before a flush must not fit a group of today. Counted in
-- eighths of a millisecond, time runs ahead of any sequence; and Lua still writes the number without an exponent.
local function next_group()
  local group = redis.call('INCR', SEQUENCE)
  if group > 1 then return group end
  group = now * 8
  redis.call('SET', SEQUENCE, string.format('%d', group))
  return group
end

local function note_start(job, n)
  add(job, 'queued', -n)
  add(job, 'leased', n)
  if redis.call('HSETNX', job_key(job), 'started', now) == 1 then
    local seconds = tonumber(redis.call('HGET', job_key(job), 'seconds')) or 0
    if seconds > 0 then redis.call('HSET', job_key(job), 'deadline', now + seconds * 1000) end
  end
end

local function record_group()
  local group = next_group()
  local fields = {}
  for i, record in ipairs(records) do
    fields[#fields + 1] = i
    fields[#fields + 1] = record
    if #fields == 2000 or i == #records then
      redis.call('HSET', lease_key(group), unpack(fields))
      fields = {}
    end
  end
  redis.call('ZADD', LEASES, now + lease_ms, group)
  for job, n in pairs(taken_of) do
    if n > 0 then note_start(job, n) end
  end
  for host, index in pairs(probes) do set(host_of(host), 'probing', string.format('%d %d', group, index)) end
  return group
end

local wait = -1
local function soonest(queue)
  local at = earliest(due_key(queue))
  if at == NEVER then return end
  local ms = math.max(0, math.ceil(at - now))
  if wait < 0 or ms < wait then wait = ms end
end

local served = {}
for i = 6, #ARGV, 2 do
  local most = math.min(limit - #records, tonumber(ARGV[i + 1]))
  rank = RANK[string.match(ARGV[i], '%.(.*)$')] or 1
  served[ARGV[i]] = most > 0 and serve(ARGV[i], most) < tonumber(ARGV[i + 1])
end
local group = #records > 0 and record_group() or 0
write_hosts()
list_hosts()
write_turns()
write_sums()
for job in pairs(touched) do
  if shrunk[job] and ends_now(job) then ended[#ended + 1] = job else refresh_due(job) end
end
for i = 6, #ARGV, 2 do
  if served[ARGV[i]] or #records >= limit then soonest(ARGV[i]) end
end
for i, under in ipairs(chunks) do chunks[i] = write_terms(under) end
return { group, wait, redis.call('ZCOUNT', LEASES, '-inf', now), ended, chunks, records }
