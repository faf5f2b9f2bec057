-- learn_robots.lua: a host's robots.txt was read.
-- ARGV[1] host   ARGV[2] seconds between requests that it asks for, or ''   ARGV[3] origin whose claim is given up
-- returns 1
local host = ARGV[1]
local bucket = redis.call('HGET', host_key(host), 'group') or host
local known = redis.call('HMGET', host_key(bucket), 'delay', 'delay_by')
-- Of several origins that share a bucket, the one that asks for most is heard.
local stricter = known[1] and known[2] ~= ARGV[3] and tonumber(known[1]) > (tonumber(ARGV[2]) or 0)
if stricter then
  redis.call('DEL', robots_key(ARGV[3]))
  return 1
end
if ARGV[2] == '' then
  redis.call('HDEL', host_key(bucket), 'delay', 'delay_by')
else
  if redis.call('HGET', host_key(bucket), 'delay') ~= ARGV[2] then
    note(bucket, 'crawl_delay', string.format('robots.txt asks for %s s between requests', ARGV[2]))
  end
  -- The robots.txt was a request as well: who goes by it waits as long after it as it asks for.
  redis.call('HSET', host_key(bucket), 'delay', ARGV[2], 'delay_by', ARGV[3], 'robots_at', now)
  lives_a_day(bucket)
end
redis.call('DEL', robots_key(ARGV[3]))
return 1
