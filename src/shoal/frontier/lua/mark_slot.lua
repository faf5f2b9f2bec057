-- mark_slot.lua: a slot is here, is being moved, or has gone; one mark takes another's place.
-- ARGV[1] the mark that must be there, '' for none   ARGV[2] the new one
-- returns 1, or 0 when another one is there (then nothing changes)
if (redis.call('GET', SLOT) or '') ~= ARGV[1] then return 0 end
redis.call('SET', SLOT, ARGV[2])
return 1
