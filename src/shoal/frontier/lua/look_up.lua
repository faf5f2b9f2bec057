-- look_up.lua: what a job knows of a URL and its host, for people; changes nothing.
-- ARGV[1] job   ARGV[2] fingerprint   ARGV[3] host
-- returns {now in ms, state ('' = the job is unknown), 1 when the URL was seen, how far it is rebuilt,
--   {ms when the host may be asked, slow, for the browser; '' = it has no such queue}, {entries of each level, …},
--   {budget, value, …}}
local job, fingerprint, host = ARGV[1], ARGV[2], ARGV[3]
local j = redis.call('HMGET', job_key(job), 'state', 'base', 'split', 'rebuild', 'redirects', 'spent', 'deadline')
if not j[1] then return { now, '', 0, '', {}, {}, {} } end
local seen = redis.call('SISMEMBER', seen_key(job, bucket_of(fingerprint, tonumber(j[2]), tonumber(j[3]))), fingerprint)
local places = { redis.call('ZSCORE', ready_key(job), host) or '', redis.call('ZSCORE', lag_key(job), host) or '',
  redis.call('ZSCORE', render_key(job), host) or '' }
local lengths = {}
for level = 0, RENDER + 2 do lengths[level + 1] = redis.call('LLEN', queue_key(job, host, level)) end
local spent = redis.call('HMGET', spend_key(job), 'p ' .. host, 'b ' .. host, 's ' .. host)
return { now, j[1], seen, j[4] or '', places, lengths, { 'redirects', j[5] or '0', 'spent', j[6] or '', 'deadline',
  j[7] or '', 'host_pages', spent[1] or '0', 'host_bytes', spent[2] or '0', 'host_since', spent[3] or '' } }
