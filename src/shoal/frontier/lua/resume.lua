-- resume.lua: put a paused job back into the rotation; the time of the pause does not count.
-- ARGV[1] job
-- returns its state after the call, '' when it is unknown
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'paused', 'deadline', 'started')
if not j[1] then return '' end
if j[1] == 'paused' then
  local pause = j[2] and j[4] and now - tonumber(j[2]) or 0
  redis.call('HSET', job_key(job), 'state', 'running')
  redis.call('HDEL', job_key(job), 'paused')
  redis.call('HINCRBY', job_key(job), 'rested', pause)
  if j[3] then redis.call('HSET', job_key(job), 'deadline', tonumber(j[3]) + pause) end
  refresh_due(job)
  tell(job, 'state', 'running')
  return 'running'
end
return j[1]
