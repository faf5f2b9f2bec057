-- close.lua: no more URLs will be submitted; the job ends when what it has is done.
-- ARGV[1] job
-- returns {state or '', 1 when this call ended the job}
local job = ARGV[1]
if redis.call('EXISTS', job_key(job)) == 0 then return { '', 0 } end
redis.call('HSET', job_key(job), 'open', '0')
local ended = ends_now(job) and 1 or 0
return { redis.call('HGET', job_key(job), 'state'), ended }
