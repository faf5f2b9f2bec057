-- sample.lua: some of the hosts that have work in each queue, and what each allows. Changes nothing.
-- ARGV[1] hosts of all queues, or a few more   ARGV[2] ms within which they may be asked   ARGV[3..] queues
-- returns {{delayed requests due by then, {line, …}} of each queue, …}; a line is one host:
--   'weight waiting rate parallel latency state shared bucket address', - for no address
--
-- Jobs and hosts beyond the sample are stood for by those in it: hosts are taken from all over their list.
local most, ahead = tonumber(ARGV[1]), now + tonumber(ARGV[2])
local JOBS, TENANTS, RUN, FEWEST = 32, 32, 8, 16

local function list_key(queue, j)
  if queue == j.queue then return ready_key(j.name) end
  return queue == j.half and render_key(j.name) or lag_key(j.name)
end

local function job_of(job, weight)
  local v = redis.call('HMGET', job_key(job), 'queue', 'half', 'rate', 'parallel', 'rate0', 'parallel0', 'robots',
    'render_delayed')
  return { name = job, weight = weight, queue = v[1], half = v[2], rate = tonumber(v[3] or ''),
    parallel = tonumber(v[4] or ''), rate0 = tonumber(v[5]) or 0, parallel0 = tonumber(v[6]) or 0, robots = v[7] == '1',
    render_delayed = tonumber(v[8]) or 0 }
end

-- Running jobs that have something to lease by then, the longest overdue first.
local function jobs_of(queue)
  local jobs, tenants = {}, redis.call('ZRANGEBYSCORE', due_key(queue), '-inf', ahead, 'LIMIT', 0, TENANTS)
  if #tenants == 0 then return jobs end
  local of_all = redis.call('ZCOUNT', due_key(queue), '-inf', ahead) / #tenants
  for _, tenant in ipairs(tenants) do
    local key = due_jobs_key(queue, tenant)
    local names = redis.call('ZRANGEBYSCORE', key, '-inf', ahead, 'LIMIT', 0, ceil(JOBS / #tenants))
    local weight = of_all * redis.call('ZCOUNT', key, '-inf', ahead) / max(1, #names)
    for _, job in ipairs(names) do jobs[#jobs + 1] = job_of(job, weight) end
  end
  return jobs
end

-- So many hosts, in short runs from all over the list. (hosts, how many each of them stands for)
local function hosts_of(queue, j, share)
  local key = list_key(queue, j)
  local there = redis.call('ZCOUNT', key, '-inf', ahead)
  if there == 0 then return {}, 1 end
  if there <= share then return redis.call('ZRANGE', key, 0, there - 1), 1 end
  local hosts, runs = {}, ceil(share / RUN)
  for i = 0, runs - 1 do
    local first = floor(i * there / runs)
    for _, host in ipairs(redis.call('ZRANGE', key, first, min(first + min(RUN, share), there) - 1)) do
      hosts[#hosts + 1] = host
    end
  end
  return hosts, there / #hosts
end

local function state_of(h, b)
  if h.paused or b.paused then return 'paused' end
  if max(b.hold or 0, h.hold or 0) > ahead then return 'held' end
  return (h.trip or h.gone) and 'down' or 'open'
end

local function waiting(job, host, top)
  local n = 0
  for level = top, top + 2 do n = n + redis.call('LLEN', queue_key(job, host, level)) end
  return n
end

-- As `lease` would treat it.
local function line_of(queue, j, host, weight)
  local h = read_host(host)
  local b = h.group and read_host(h.group) or h
  local rate = wanted_rate(j, b, h)
  if b.pace and (rate == 0 or b.pace < rate) then rate = b.pace end
  local parallel = b.parallel or j.parallel or j.parallel0
  if h.parallel and h.parallel > 0 and (parallel == 0 or h.parallel < parallel) then parallel = h.parallel end
  return string.format('%.8g %d %.8g %d %d %s %d %s %s', weight, waiting(j.name, host, queue == j.half and RENDER or 0),
    rate, parallel, h.latency or 0, state_of(h, b), h.group and 1 or 0, b.name, h.address or '-')
end

-- Delayed requests of both halves stand in one list.
local function retries_of(queue, j)
  if queue ~= j.queue and queue ~= j.half then return 0 end
  local due = redis.call('ZCOUNT', delayed_key(j.name), '-inf', ahead)
  return queue == j.half and min(due, j.render_delayed) or max(0, due - j.render_delayed)
end

local working, jobs_in = 0, {}
for i = 3, #ARGV do
  jobs_in[i] = jobs_of(ARGV[i])
  if #jobs_in[i] > 0 then working = working + 1 end
end
local found = {}
for i = 3, #ARGV do
  local queue, lines, retries, jobs = ARGV[i], {}, 0, jobs_in[i]
  local share = max(FEWEST, floor(most / max(1, working)))
  for _, j in ipairs(jobs) do
    local hosts, weight = hosts_of(queue, j, max(1, floor(share / #jobs)))
    read_hosts(hosts, #hosts)
    for _, host in ipairs(hosts) do lines[#lines + 1] = line_of(queue, j, host, weight * j.weight) end
    retries = retries + retries_of(queue, j) * j.weight
  end
  found[#found + 1] = { string.format('%.8g', retries), lines }
end
return found
