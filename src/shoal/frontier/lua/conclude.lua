-- conclude.lua: who has claimed the decision which jobs are lost gives it back, unless he has lost it himself.
-- ARGV[1] the claim   ARGV[2] epoch that the database has, '' when nothing was decided   ARGV[3] run of the server
-- returns 1, or 0 when somebody else has the claim by now (then nothing changes)
if redis.call('GET', ring_key('recovery')) ~= ARGV[1] then return 0 end
redis.call('DEL', ring_key('recovery'))
if ARGV[2] == '' then return 1 end
redis.call('SET', EPOCH, string.format('%d', max(tonumber(ARGV[2]), tonumber(redis.call('GET', EPOCH) or '0')) + 1))
redis.call('SET', SERVER, ARGV[3])
return 1
