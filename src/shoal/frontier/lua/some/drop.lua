-- some/drop.lua: what waits beyond a smaller page budget is dropped, the last that came first; returns how much that was.
local function drop_last(job, excess)
  local dropped = 0
  local by_host = (tonumber(redis.call('HGET', job_key(job), 'host_pages')) or 0) > 0
  for _, list in ipairs({ ready_key(job), lag_key(job), render_key(job) }) do
    local first = list == render_key(job) and RENDER or 0
    for _, host in ipairs(redis.call('ZRANGE', list, 0, -1)) do
      if dropped >= excess then break end
      local before = dropped
      for level = first + 2, first, -1 do
        local gone = redis.call('RPOP', queue_key(job, host, level), math.max(0, excess - dropped))
        dropped = dropped + (gone and #gone or 0)
      end
      add_place(job, first, 'queued', before - dropped)
      if by_host then redis.call('HINCRBY', spend_key(job), 'p ' .. host, before - dropped) end
      local left = redis.call('EXISTS', queue_key(job, host, first), queue_key(job, host, first + 1),
        queue_key(job, host, first + 2))
      if left == 0 then redis.call('ZREM', list, host) end
    end
  end
  add(job, 'dropped', dropped)
  if dropped > 0 then redis.call('HINCRBY', reasons_key(job), 'filtered:over_budget', dropped) end
  write_sums()
  return dropped
end
