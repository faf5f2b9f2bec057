-- links_sent.lua: links were sent (once more), or what was sent has arrived for good.
-- ARGV[1] 1 when they were sent just now, 0 when nothing more is to be known of them   ARGV[2..] as read_links has them
-- returns how many were owed
local paid = 0
for i = 2, #ARGV do
  if redis.call('ZREM', owed_key(), ARGV[i]) == 1 then
    local job = string.match(ARGV[i], '^%S+')
    paid = paid + 1
    if redis.call('EXISTS', job_key(job)) == 1 then redis.call('HINCRBY', job_key(job), 'owing', -1) end
  end
  if ARGV[1] == '1' then redis.call('ZADD', sent_key(), now, ARGV[i]) else redis.call('ZREM', sent_key(), ARGV[i]) end
end
return paid
