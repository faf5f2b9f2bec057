-- show_hosts.lua: what is known of some hosts, for people.
-- ARGV hosts
-- returns {now in ms, {{field, value, …}, how many wait for room, {decision, …}} of each host, …}
local shown = { now }
for i, host in ipairs(ARGV) do
  local fields = {}
  for field, value in pairs(read_host(host)) do
    fields[#fields + 1] = field
    fields[#fields + 1] = type(value) == 'number' and string.format('%.14g', value) or value
  end
  shown[i + 1] = { fields, redis.call('ZCARD', waiters_key(host)), redis.call('LRANGE', notes_key(host), 0, -1) }
end
return shown
