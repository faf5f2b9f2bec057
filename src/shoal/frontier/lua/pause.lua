-- pause.lua: take the job out of the rotation; what is leased is finished, nothing new is handed out.
-- ARGV[1] job
-- returns its state after the call, '' when it is unknown
local state = redis.call('HGET', job_key(ARGV[1]), 'state')
if not state then return '' end
if state == 'running' then
  redis.call('HSET', job_key(ARGV[1]), 'state', 'paused', 'paused', now)
  refresh_due(ARGV[1])
  tell(ARGV[1], 'state', 'paused')
  return 'paused'
end
return state
