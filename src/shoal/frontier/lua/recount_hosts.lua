-- recount_hosts.lua: hold the requests that hosts are said to have in flight against the leases; put right what differs.
-- ARGV[1] at most this many leases are counted   ARGV[2..] hosts, and buckets that several share
-- returns {hosts put right, or -1 when there are too many leases, job that ended by this call, …}
local groups, total = redis.call('ZRANGE', LEASES, 0, -1), 0
for _, group in ipairs(groups) do total = total + redis.call('HLEN', lease_key(group)) end
if total > tonumber(ARGV[1]) then return { -1 } end

local held, names = {}, {}
for _, group in ipairs(groups) do
  for _, record in ipairs(redis.call('HVALS', lease_key(group))) do
    local host = string.match(record, '^%S+ (%S+) ')
    if not held[host] then names[#names + 1] = host end
    held[host] = (held[host] or 0) + 1
  end
end
-- Of a host also its domain and its address.
for _, host in ipairs(names) do
  local h = read_host(host)
  if h.group then held[h.group] = (held[h.group] or 0) + held[host] end
  if h.address then held[h.address] = (held[h.address] or 0) + held[host] end
end

local touched, changes = {}, 0
for i = 2, #ARGV do
  local b = read_host(ARGV[i])
  local by = (held[ARGV[i]] or 0) - b.inflight
  if by > 0 then set(b, 'inflight', b.inflight + by) end
  if by < 0 then lower(b, -by, touched) end
  if by ~= 0 then changes = changes + 1 end
end
return { changes, unpack(finish_moves(touched)) }
