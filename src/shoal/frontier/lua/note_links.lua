-- note_links.lua: pages of this slot are about to be settled whose links went to other slots, or could not.
-- ARGV[1] job with its life   ARGV[2] fence: how many losses of servers had been noticed before the links were sent
-- ARGV[3] slots that they were sent to   ARGV[4] slots that were away   ARGV[5] the pages   ARGV[6] token
-- returns -1, or the fence that is known here when it is a higher one: what was sent may be lost, and is to be sent again;
--   when links are owed, -2 if the job is not known here, and -3 if it is sealed
local job, fence = ARGV[1], tonumber(redis.call('GET', FENCE)) or 0
if fence > tonumber(ARGV[2]) then return fence end
local state = redis.call('HGET', job_key(job), 'state')
if ARGV[4] ~= '' and not state then return -2 end
if ARGV[4] ~= '' and state == 'sealed' then return -3 end
local function line(slots) return table.concat({ job, slots, ARGV[5], ARGV[6] }, ' ') end
if ARGV[3] ~= '' then redis.call('ZADD', sent_key(), now, line(ARGV[3])) end
if ARGV[4] ~= '' then
  local new = redis.call('ZADD', owed_key(), now, line(ARGV[4])) -- not when this is said once more
  redis.call('HINCRBY', job_key(job), 'owing', new)
end
return -1
