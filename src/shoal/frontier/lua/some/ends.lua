-- some/ends.lua: the token of who is about to end a job, in the list of jobs.

-- Its number tells who began later. It holds for one run of this server, which may have lost that the end was called off,
-- and while no other server has lost anything, which may have lost that a slot is sealed.
local function end_token(number)
  return string.format('%d %s %s', number, this_run(), redis.call('GET', FENCE) or '0')
end
