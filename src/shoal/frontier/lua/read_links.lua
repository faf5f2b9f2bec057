-- read_links.lua: pages of this slot whose links were sent to other slots, or are owed to them; some at a time.
-- ARGV[1] 'sent' or 'owed'   ARGV[2] ms from which on   ARGV[3] ms up to which; negative: so long ago, from now
-- ARGV[4] at most so many   ARGV[5] number of a loss that this server is told of before, 0 for none
-- returns {ms up to which, ms from which on there may be more or -1, 'job slots pages token', …}, the oldest first
local from, upto, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if upto <= 0 then upto = now + upto end
if tonumber(ARGV[5]) > (tonumber(redis.call('GET', FENCE)) or 0) then redis.call('SET', FENCE, ARGV[5]) end
local found
if ARGV[1] == 'sent' then
  found = redis.call('ZRANGEBYSCORE', sent_key(), from, upto, 'WITHSCORES', 'LIMIT', 0, most)
else
  found = redis.call('ZRANGEBYSCORE', owed_key(), from, upto, 'WITHSCORES', 'LIMIT', 0, most)
end
local lines, more = {}, -1
for i = 1, #found, 2 do lines[#lines + 1] = found[i] end
if #lines == most then
  more = tonumber(found[#found])
  if more <= from then more = from + 1 end
end
return { upto, more, unpack(lines) }
