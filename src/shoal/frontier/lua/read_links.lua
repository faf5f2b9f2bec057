-- read_links.lua: pages of this slot whose links were sent to other slots lately, or are owed to them.
-- ARGV[1] 'sent' or 'owed'   ARGV[2] at least this many ms ago   ARGV[3] at most so many
-- returns {'job slots pages token', …}, the oldest first
local last, most = now - tonumber(ARGV[2]), tonumber(ARGV[3])
if ARGV[1] == 'sent' then return redis.call('ZRANGEBYSCORE', sent_key(), '-inf', last, 'LIMIT', 0, most) end
return redis.call('ZRANGEBYSCORE', owed_key(), '-inf', last, 'LIMIT', 0, most)
