-- mark_slot.lua: a slot is here, is being moved, or has gone; one mark takes another's place.
-- ARGV[1] the mark that must be there, '' for none   ARGV[2] the new one
-- ARGV[3] the run that the server must be, '' for any: one that was started anew may have lost what came before
-- ARGV[4] 1 when it must have been looked at, and all made good that it may have lost
-- returns 1, or when nothing changes: 0 as another mark is there, -1 on another run, -2 on a server that is not well
if ARGV[3] ~= '' and not is_run(ARGV[3]) then return -1 end
if ARGV[4] == '1' then
  if not is_run(redis.call('GET', SERVER) or '-') or not is_run(redis.call('GET', WHOLE) or '-') then return -2 end
end
if (redis.call('GET', SLOT) or '') ~= ARGV[1] then return 0 end
redis.call('SET', SLOT, ARGV[2])
return 1
