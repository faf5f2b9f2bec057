-- go_on.lua: something comes to a job that somebody is about to end.
-- ARGV[1] job   ARGV[2] the token under which a slot was sealed
-- returns {state or '', its life, 1 when it is over}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'life', 'ended', 'ending')
if not j[1] then return { '', '', 0 } end
if j[4] == ARGV[2] then redis.call('HDEL', job_key(job), 'ending') end
return { j[1], j[2] or '', (j[3] or j[1] == 'cancelled') and 1 or 0 }
