-- go_on.lua: something comes to a job that somebody is about to end, and no end that was begun before this is written down.
-- ARGV[1] job   ARGV[2] token of who gives up his own end, and nobody else's; '' when something comes
-- returns as join_slots does
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'life', 'ended', 'ending', 'rebuild', 'pages')
if not j[1] then return { '', '', 0, 0, 0 } end
local over, recalls = j[3] or j[1] == 'cancelled', j[5] and is_recalling(j[5])
if ARGV[2] == '' and not over or j[4] == ARGV[2] then redis.call('HDEL', job_key(job), 'ending') end
return { j[1], j[2] or '', over and 1 or 0, recalls and 1 or 0, tonumber(j[6]) or 0 }
