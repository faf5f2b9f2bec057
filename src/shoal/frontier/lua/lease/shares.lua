-- lease/shares.lua: whose turn it is, among tenants, among their jobs, and among those who want one host.
-- Virtual time: who was served n requests at weight w is n / w further on, and who is furthest behind comes next.
local MAX_JOBS, QUANTUM, RIVALS = 64, 8, 8

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
  if #left == 0 then set(read_host(host), 'shared', nil) end
end

local function has_entries(queue, j, host)
  local first = queue == j.half and RENDER or 0
  return redis.call('EXISTS', queue_key(j.name, host, first), queue_key(j.name, host, first + 1),
    queue_key(j.name, host, first + 2)) > 0
end

-- Can something of the job be served from this queue? Of a batch, slow hosts are in the lane beside it; what needs a
-- browser is in a queue for that.
local function stands_in(queue, j)
  return j.state == 'running' and (j.queue == queue or j.slow_lane == queue or j.half == queue)
end

-- May this rival be served in place of the one whose place was looked at? One that has nothing here any more leaves; one
-- that asks for less than the bucket gives waits by itself.
local function rival_place(queue, place, tenant, name, booked)
  if name == place.job.name then return place end
  local j = job_of(name)
  if not stands_in(queue, j) or not has_entries(queue, j, place.host) then
    leave_rivals(queue, place.host, tenant, name)
    return nil
  end
  if over_budget(j) or host_spent(j, place.host) then return nil end
  local list = list_key(queue, j)
  write_waits()
  local at = tonumber(redis.call('ZSCORE', list, place.host) or '')
  if not at or (at > now and j.rate and j.rate < booked) then return nil end
  return { job = j, host = place.host, h = place.h, list = list, queue = queue, rank = place.rank }
end

-- Does the place share its host with other jobs? Then it is a rival from now on.
local function contend(queue, place)
  local h = place.h
  if not h.shared then
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

local takers = {} -- job → requests that it got and has not been charged for
local taken_of, rendered_of = {}, {} -- name of a job → all that it got in this call; that of its browser half
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

-- Whoever was served from the queue of late pays for it.
local function charge_takers(queue)
  for j, n in pairs(takers) do
    charge(queue, j, n)
    taken_of[j.name] = (taken_of[j.name] or 0) + n
    if queue == j.half then rendered_of[j.name] = (rendered_of[j.name] or 0) + n end
  end
  takers = {}
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
    turns[name] = max(turns[name] or tonumber(scores[i] or 0), present)
    first = min(first, turns[name])
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
    local quota = min(want - got, max(QUANTUM, ceil((want - got) / #names)))
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
