-- unseal.lua: a job goes on in this slot, unless somebody else has sealed it meanwhile.
-- ARGV[1] job with its life   ARGV[2] token under which it was sealed; '' to be told
-- returns the token under which it is sealed now; '' when it is not
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'seal', 'was')
if j[1] ~= 'sealed' then return '' end
if j[2] ~= ARGV[2] then return j[2] end
redis.call('HSET', job_key(job), 'state', j[3])
redis.call('HDEL', job_key(job), 'seal', 'was')
refresh_due(job)
return ''
