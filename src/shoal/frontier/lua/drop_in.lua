-- drop_in.lua: a request beside the leases, such as a redirect of a robots.txt, takes a turn of its host.
-- ARGV[1] host   ARGV[2] default rate (0 = unlimited)
-- returns ms until its turn; -1 when the host must not be asked now
local h = read_host(ARGV[1])
local b = h.group and read_host(h.group) or h
if h.paused or b.paused or h.trip or h.gone or max(h.hold or 0, b.hold or 0) > now then return -1 end
local rate = wanted_rate({ rate0 = tonumber(ARGV[2]), robots = true }, b, h)
if b.pace and (rate == 0 or b.pace < rate) then rate = b.pace end
if rate == 0 then return 0 end
local slot = max(b.slot or 0, now)
set(b, 'slot', slot + 1000 / rate)
list_host(b)
write_hosts()
return ceil(slot - now)
