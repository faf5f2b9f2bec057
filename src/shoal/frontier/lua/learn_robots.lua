-- learn_robots.lua: a host's robots.txt was read.
-- ARGV[1] host   ARGV[2] seconds between requests that it asks for, or ''   ARGV[3] origin whose claim is given up
-- returns 1
local host = ARGV[1]
local b, delay = read_host(read_host(host).group or host), tonumber(ARGV[2])
-- Of several origins that share a bucket, the one that asks for most is heard.
local stricter = b.delay and b.delay_by ~= ARGV[3] and b.delay > (delay or 0)
if stricter then
  redis.call('DEL', robots_key(ARGV[3]))
  return 1
end
if delay and b.delay ~= delay then
  note(b.name, 'crawl_delay', string.format('robots.txt asks for %s s between requests', ARGV[2]))
end
set(b, 'delay', delay)
set(b, 'delay_by', delay and ARGV[3])
-- The robots.txt was a request as well: who goes by it waits as long after it as it asks for.
if delay then set(b, 'robots_at', now) end
write_hosts()
redis.call('DEL', robots_key(ARGV[3]))
return 1
