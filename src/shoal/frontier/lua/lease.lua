-- lease.lua: give one worker the requests that may be fetched now.
-- ARGV[1] limit   ARGV[2] lease_ms   ARGV[3] requests at once to one address (0 = any)
-- ARGV[4] 1 when a host must be introduced (`meet`) before it is asked
-- ARGV[5] requests at once to a host that has no cap and has never answered
-- ARGV[6] the process that asks: it gets few requests that were lost with others
-- ARGV[7..] pairs: queue, requests from it at most; the most urgent queue first
-- returns {group (-1 = the server was started anew, and nobody has looked),
--   ms until more is due (0 = at once, -1 = nothing waits), expired leases,
--   {job that ended by this call, or in a slot has nothing left or no time, …}, {'queue mark rate parallel source count', …}, {record, …}, run of the server}
--
-- For each queue: the due tenants by their turn (virtual time, so that shares follow weights), of each its due jobs by
-- theirs, of each job its ready hosts, of each host as many entries as its rate, its cap and the batch allow. A host
-- that several jobs want goes to the one whose turn it is on that host.
local limit, lease_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local MAX_HOSTS, PASSES, SILENT_MS, RENDERING_MS = 256, 8, 2000, 10000
local RANK = { high = 0, batch = 1, slow = 2 }
local rank = 0 -- of the queue that is being served: the urgent are woken first
local records, chunks, ended = {}, {}, {}

-- --- taking ------------------------------------------------------------------------------------------------------

-- Take at most n entries, the most urgent level first; tells whether more are left, or at which level there may be.
local function pop(job, host, top, n)
  local first, normal, last = queue_key(job, host, top), queue_key(job, host, top + 1), queue_key(job, host, top + 2)
  local got, level, kept = 0, nil, nil
  while got < n do
    local popped = redis.call('LMPOP', 3, first, normal, last, 'LEFT', 'COUNT', n - got)
    if not popped then break end
    level = string.sub(popped[1], -1)
    local start = job .. ' ' .. host .. ' ' .. level .. ' '
    for _, entry in ipairs(popped[2]) do
      if trusts(losses_of(entry), #records + 1) then
        records[#records + 1] = start .. entry
        got = got + 1
      else
        kept = kept or {}
        kept[#kept + 1] = start .. entry
      end
    end
    if kept and #kept >= SKIPPED then break end
  end
  if kept then
    return_suspects(kept)
    return got, true
  end
  if got < n then return got, false end
  return got, true, level
end

-- Places that were served and may have nothing left: one look at all of them, before their list is looked at again.
local unsure = {} -- {level = that was served, list, queue, job, host}
local function drop_empty()
  if #unsure == 0 then return end
  local keys = {}
  for _, place in ipairs(unsure) do
    keys[#keys + 1] = queue_key(place.job.name, place.host, place.level)
  end
  if redis.call('EXISTS', unpack(keys)) < #keys then
    for _, place in ipairs(unsure) do
      if not has_entries(place.queue, place.job, place.host) then redis.call('ZREM', place.list, place.host) end
    end
  end
  unsure = {}
end

-- When may the host be asked again for this job? `level` is where there may be more.
local function reschedule(place, under, more, level)
  local j, b = place.job, under.b
  local full = under.parallel > 0 and b.inflight >= under.parallel
  if level and (full or place.h.shared or under.mark ~= '') then
    more = redis.call('EXISTS', queue_key(j.name, place.host, level)) == 1 or has_entries(place.queue, j, place.host)
    level = nil
  end
  if not more then
    write_waits()
    redis.call('ZREM', place.list, place.host)
    if place.h.shared then leave_rivals(place.queue, place.host, j.tenant, j.name) end
  elseif under.mark == '~' then
    wait_until(place, place.host, now + INTRODUCE_MS)
  elseif under.mark == '!' then
    put_off(place, now)
  elseif full then
    park(place, b.name)
  else
    local at = now
    if under.booked > 0 then at = max(at, (b.slot or 0) - BURST_MS) end
    if under.own then at = max(at, under.own - BURST_MS) end
    put_off(place, at)
    if level then
      unsure[#unsure + 1] = { level = level, list = place.list, queue = place.queue, job = j, host = place.host }
    end
  end
end

local function count_in_flight(h, b, got)
  if h.inflight == 0 then h.quiet = now end
  if not h.owner then list_host(h) end
  h.inflight = h.inflight + got
  changed(h)
  if b ~= h then set(b, 'inflight', b.inflight + got) end
  if h.address then
    local a = read_host(h.address)
    set(a, 'inflight', a.inflight + got)
  end
end

local function book(place, under, got)
  local h, b = place.h, under.b
  count_in_flight(h, b, got)
  h.owner = place.job.name
  if under.mark == '?' then probes[h.name] = #records end
  if under.mark == '!' or under.mark == '~' then return end
  if under.booked > 0 then
    local slot = max(b.slot or 0, now) + got * 1000 / under.booked
    set(b, 'slot', slot)
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
  chunks[#chunks + 1] = { queue = queue, mark = under.mark, rate = under.rate, parallel = under.parallel,
    source = under.source, got = got }
end

local function serve_place(place, n, under)
  local j, queue = place.job, place.queue
  local got, more, level = pop(j.name, place.host, queue == j.half and RENDER or 0, n)
  if got == 0 and more then -- suspects only: they wait until the caller has none
    wait_until(place, place.host, now + SUSPECT_MS)
    return 0
  end
  if got > 0 then
    book(place, under, got)
    note_terms(queue, under, got)
    takers[j] = (takers[j] or 0) + got
    if place.h.shared then charge_on_host(queue, place.host, j, got) end
    if j.host_seconds > 0 then redis.call('HSETNX', spend_key(j.name), 's ' .. place.host, now) end
  end
  reschedule(place, under, more, level)
  return got
end

local function write_terms(under)
  return string.format('%s .%s %s %d %s %d', under.queue, under.mark, under.rate, under.parallel, under.source, under.got)
end

-- --- lanes -------------------------------------------------------------------------------------------------------

-- A slow host leaves the lane of a job for the slow one, and comes back. True when the place has moved. A browser
-- half has no slow lane; and where pages are rendered, silence means little for longer.
local function moves_lane(place)
  local j, h = place.job, place.h
  if place.queue == j.half then return false end
  local home = j.queue == place.queue
  if home and not h.slow then
    local patience = (j.half or j.slow_lane == 'browser.slow') and RENDERING_MS or SILENT_MS
    if not j.slow_lane or h.inflight == 0 or now - (h.quiet or now) <= patience then return false end
    set(h, 'slow', 1)
    note(place.host, 'slow_lane', string.format('no answer for %d ms', now - h.quiet))
  end
  if not (home and j.slow_lane or not home and not h.slow) then return false end
  local to = home and lag_key(j.name) or ready_key(j.name)
  write_waits()
  local at = redis.call('ZSCORE', place.list, place.host)
  redis.call('ZREM', place.list, place.host)
  redis.call('ZADD', to, 'NX', at, place.host)
  touched[j.name] = true
  return true
end

-- --- rounds ------------------------------------------------------------------------------------------------------

local function take_from_host(place, want, under)
  local queue, host = place.queue, place.host
  if moves_lane(place) then return 0 end
  local reason = host_spent(place.job, host)
  if reason then
    drop_host(place, reason)
    return 0
  end
  local n = room(place, want, under)
  if n == 0 then
    contend(queue, place) -- who never comes first must be known to those who do
    return 0
  end
  if under.mark == '' then
    local rival = turn_on_host(queue, place, under.booked)
    if rival ~= place then
      touched[rival.job.name] = true
      local terms = {}
      local m, full = room(rival, want, terms)
      if m > 0 then
        if place.h.waited then
          redis.call('ZREM', waiters_key(host), waiter_of(rival.job.name, host, queue == rival.job.half))
        end
        local got = serve_place(rival, m, terms)
        if got > 0 then
          room(place, 1, under) -- the place looked at waits for what is left, or is served in the next pass
          return got
        end
      elseif full then -- whose turn it is asks for fewer at once: the others wait until it can be served
        park(place, under.b.name)
        return 0
      end
    end
  end
  return serve_place(place, n, under)
end

-- Delayed requests whose time has come go to the front level of their queues, in either half.
local function promote(job)
  local due = redis.call('ZRANGEBYSCORE', delayed_key(job), '-inf', now, 'LIMIT', 0, 500)
  if #due == 0 then return end
  redis.call('ZREM', delayed_key(job), unpack(due))
  for _, record in ipairs(due) do
    local _, host, level, entry = split_record(record)
    local top = in_half(level) and RENDER or 0
    enqueue(job, host, top, { entry }, false)
    add_place(job, top, 'delayed', -1)
    add_place(job, top, 'queued', 1)
  end
end

local function take_from_hosts(queue, j, list, want)
  local got, place, under = 0, { job = j, list = list, queue = queue, rank = rank, host = '', h = {} }, {}
  for _ = 1, PASSES do
    write_waits()
    drop_empty()
    local hosts = redis.call('ZRANGEBYSCORE', list, '-inf', now, 'LIMIT', 0, MAX_HOSTS)
    if #hosts == 0 then break end
    local share = ceil((want - got) / #hosts)
    read_hosts(hosts, want - got)
    for _, host in ipairs(hosts) do
      place.host, place.h = host, read_host(host)
      got = got + take_from_host(place, min(share, want - got), under)
      if got >= want then return got end
    end
  end
  return got
end

local function take_from_job(queue, name, want)
  local j = job_of(name)
  touched[name] = true
  if j.state ~= 'running' or job_spent(j) then return 0 end
  if queue == j.queue or queue == j.half then promote(name) end
  local got = take_from_hosts(queue, j, list_key(queue, j), want)
  charge_takers(queue)
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

-- A group's number is the time, or one more than the last: after a flush, or with a frontier older than its workers,
-- a lease from before must not fit a group of today. Counted in eighths of a millisecond, time runs ahead of any
-- sequence; and Lua still writes the number without an exponent.
local function next_group()
  local group = max((tonumber(redis.call('GET', SEQUENCE)) or 0) + 1, now * 8)
  redis.call('SET', SEQUENCE, string.format('%d', group))
  return group
end

local function note_start(job, n)
  local rendered = rendered_of[job] or 0
  add_place(job, 0, 'queued', rendered - n)
  add_place(job, 0, 'leased', n - rendered)
  if rendered > 0 then
    add_place(job, RENDER, 'queued', -rendered)
    add_place(job, RENDER, 'leased', rendered)
  end
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
  redis.call('SET', holder_key(group), holder, 'EX', DAY_S)
  note_suspects(group)
  for job, n in pairs(taken_of) do
    if n > 0 then note_start(job, n) end
  end
  for host, index in pairs(probes) do set(read_host(host), 'probing', string.format('%d %d', group, index)) end
  return group
end

local wait = -1
local function soonest(queue)
  local at = earliest(due_key(queue))
  if at == NEVER then return end
  local ms = max(0, ceil(at - now))
  if wait < 0 or ms < wait then wait = ms end
end

-- A function, because its locals count by themselves.
local function answer()
  local run, trusted = server_run()
  if not trusted then return { -1, 100, 0, {}, {}, {}, run } end

  local served = {}
  for i = 7, #ARGV, 2 do
    local most = min(limit - #records, tonumber(ARGV[i + 1]))
    rank = RANK[string.match(ARGV[i], '%.(.*)$')] or 1
    served[ARGV[i]] = most > 0 and serve(ARGV[i], most) < tonumber(ARGV[i + 1])
  end
  local group = #records > 0 and record_group() or 0
  write_waits()
  drop_empty()
  write_hosts()
  write_turns()
  write_sums()
  for job in pairs(touched) do
    if shrunk[job] and ends_now(job) then ended[#ended + 1] = job else refresh_due(job) end
  end
  for _, job in ipairs(out_of_time) do ended[#ended + 1] = job end
  for i = 7, #ARGV, 2 do
    if served[ARGV[i]] or #records >= limit then soonest(ARGV[i]) end
  end
  for i, under in ipairs(chunks) do chunks[i] = write_terms(under) end
  return { group, wait, redis.call('ZCOUNT', LEASES, '-inf', now), ended, chunks, records, run }
end

return answer()
