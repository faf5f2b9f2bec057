-- meet.lua: a worker has found out where a host lives and what domain it belongs to, and gives its request back.
-- ARGV[1] group   ARGV[2] index   ARGV[3] host   ARGV[4] address or ''   ARGV[5] bucket of its domain or ''
-- returns {leases that were lost already, job that ended by this call, …}
local host, names = ARGV[3], { address = ARGV[4], group = ARGV[5] }
local records, touched = {}, {}
local late = take_leases(ARGV[1], { ARGV[2] }, function(_, record) records[1] = record end)
-- What is under way is counted where the host lives now, so that each return lowers what was raised.
local h = read_host(host)
local function move(bucket, n)
  local b = read_host(bucket)
  set(b, 'inflight', math.max(0, b.inflight + n))
end
local inflight = h.inflight
for field, name in pairs(names) do
  if h[field] ~= name and not (name == '' and not h[field]) then
    if h[field] then move(h[field], -inflight) end
    if name ~= '' then move(name, inflight) end
    set(h, field, name ~= '' and name or nil)
  end
end
set(h, 'met', now)
give_back(records, touched)
return { late, unpack(finish_moves(touched)) }
