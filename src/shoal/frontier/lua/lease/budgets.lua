-- lease/budgets.lua: bytes and seconds of a job, and of each of its hosts; what is beyond them is dropped.

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

local function drop_host(place, reason)
  local dropped, name = 0, place.job.name
  for level = 0, place.job.half and RENDER + 2 or 2 do
    local queue = queue_key(name, place.host, level)
    local length = redis.call('LLEN', queue)
    redis.call('UNLINK', queue)
    add_place(name, level, 'queued', -length)
    dropped = dropped + length
  end
  redis.call('ZREM', place.list, place.host)
  if place.job.half then
    write_waits()
    redis.call('ZREM', ready_key(name), place.host)
    redis.call('ZREM', lag_key(name), place.host)
    redis.call('ZREM', render_key(name), place.host)
  end
  add(name, 'dropped', dropped)
  redis.call('HINCRBY', reasons_key(place.job.name), 'filtered:' .. reason, dropped)
  touched[place.job.name], shrunk[place.job.name] = true, true
end

-- A job that has used up its bytes or its time: what waits is dropped.
-- Of a slot, only the list of jobs knows the job's time for sure: it is asked, and the job waits.
local out_of_time = {}
local function job_spent(j)
  local reason = over_budget(j)
  if not reason then return false end
  if IN_SLOT and reason == 'over_seconds' then
    redis.call('HDEL', job_key(j.name), 'deadline', 'time')
    out_of_time[#out_of_time + 1] = j.name
    touched[j.name] = true
    return true
  end
  write_sums()
  write_waits()
  local dropped = drop_waiting(j.name)
  if dropped > 0 then redis.call('HINCRBY', reasons_key(j.name), 'filtered:' .. reason, dropped) end
  redis.call('HSET', job_key(j.name), 'spent', reason)
  touched[j.name], shrunk[j.name] = true, true
  return true
end
