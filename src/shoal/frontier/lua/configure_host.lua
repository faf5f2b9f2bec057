-- configure_host.lua: an operator's word on a host; stronger than what jobs ask for.
-- ARGV[1] host, or bucket of a domain   ARGV[2..] pairs: rate, parallel (0 = unlimited), paused (1), or hold (ms from now);
-- '' takes the word back
-- returns 1
local h, touched, words = read_host(ARGV[1]), {}, {}
local rate = h.rate
for i = 2, #ARGV, 2 do
  local field, value = ARGV[i], tonumber(ARGV[i + 1])
  words[#words + 1] = field .. (value and ' ' .. ARGV[i + 1] or ' back')
  set(h, field, value and field == 'hold' and now + value or value)
end
-- A slot that was booked at another rate binds nobody, and jobs that were put off may ask again at once.
if h.rate ~= rate then set(h, 'slot', nil) end
for _, job in ipairs(redis.call('SMEMBERS', JOBS)) do wake(job, h.name, touched) end
wake_waiters(h, 100000, touched)
note(h.name, 'set', 'an operator: ' .. table.concat(words, ', '))
set(h, 'set', (h.rate or h.parallel or h.paused) and 1 or nil)
h.listed = nil -- it comes first in the list at once
host_returned(h, 0, touched)
finish_moves(touched)
return 1
