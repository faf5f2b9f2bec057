-- join_slots.lua: requests of a job are about to come to these slots, which are among its slots from now on.
-- Somebody who is about to end the job begins again when there is a new one among them.
-- ARGV[1] job   ARGV[2] duplicates that the caller has dropped itself
-- ARGV[3] 1 when no page tells of what comes, as it was submitted, or is rebuilt: that is written down for a while
-- ARGV[4..] slots
-- returns {state or '', its life, 1 when it takes nothing more, 1 while it recalls what is stored, pages it may have}
local job, duplicates = ARGV[1], tonumber(ARGV[2])
local j = redis.call('HMGET', job_key(job), 'state', 'life', 'ended', 'rebuild', 'pages')
if not j[1] then return { '', '', 0, 0, 0 } end
local over, recalls = j[3] or j[1] == 'cancelled', j[4] and is_recalling(j[4])
if not over then
  if duplicates > 0 and not recalls then redis.call('HINCRBY', job_key(job), 'duplicates', duplicates) end
  if #ARGV > 3 and redis.call('SADD', slots_key(job), unpack(ARGV, 4)) > 0 then
    redis.call('HDEL', job_key(job), 'ending')
  end
  for i = 4, ARGV[3] == '1' and #ARGV or 0 do
    redis.call('ZADD', brought_key(), now, job .. '.' .. j[2] .. ' ' .. ARGV[i])
  end
end
return { j[1], j[2] or '', over and 1 or 0, recalls and 1 or 0, tonumber(j[5]) or 0 }
