-- reap.lua: leases past their deadline go back to the front of their queues, one loss the richer.
-- ARGV[1] at most this many groups
-- returns {requests given back, job that ended by this call, …}
local touched, records = {}, {}

local function with_loss(record)
  local job, host, level, entry = split_record(record)
  local flag, numbers, rest = string.match(entry, '^(%a)([%d,]+)(.*)$')
  local n = {}
  for number in string.gmatch(numbers, '%d+') do n[#n + 1] = tonumber(number) end
  numbers = string.format('%d,%d,%d,%d', n[1], n[2] or 0, n[3] or 0, (n[4] or 0) + 1)
  add(job, 'lost', 1)
  return job .. ' ' .. host .. ' ' .. level .. ' ' .. flag .. numbers .. rest
end

for _, group in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, tonumber(ARGV[1]))) do
  for _, record in ipairs(redis.call('HVALS', lease_key(group))) do
    records[#records + 1] = record
  end
  redis.call('DEL', lease_key(group), holder_key(group))
  redis.call('ZREM', LEASES, group)
end
-- A record of a job that was forgotten has nobody to return to.
local returning = {}
for _, record in ipairs(records) do
  local known = redis.call('EXISTS', job_key((split_record(record)))) == 1
  returning[#returning + 1] = known and with_loss(record) or record
end
give_back(returning, touched)
count('reaped', #returning)
return { #returning, unpack(finish_moves(touched)) }
