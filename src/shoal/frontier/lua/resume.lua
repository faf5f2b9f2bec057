-- resume.lua: put a paused job back into the rotation.
-- ARGV[1] job
-- returns its state after the call, '' when it is unknown
local state = redis.call('HGET', job_key(ARGV[1]), 'state')
if not state then return '' end
if state == 'paused' then
  redis.call('HSET', job_key(ARGV[1]), 'state', 'running')
  refresh_due(ARGV[1])
  tell(ARGV[1], 'state', 'running')
  return 'running'
end
return state
