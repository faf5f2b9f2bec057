-- release.lua: a worker gives requests back unfetched; they can be leased again at once, nothing is held against them.
-- ARGV pairs: group, index
-- returns {leases that were lost already, job that ended by this call, …}
local groups, order, records, touched = {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  if not groups[ARGV[i]] then
    groups[ARGV[i]] = {}
    order[#order + 1] = ARGV[i]
  end
  table.insert(groups[ARGV[i]], ARGV[i + 1])
end
local late = 0
for _, group in ipairs(order) do
  late = late + take_leases(group, groups[group], function(_, record) records[#records + 1] = record end)
end
give_back(records, touched)
return { late, unpack(finish_moves(touched)) }
