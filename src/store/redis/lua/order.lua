-- owner, by, key, runs_for, despite_pause. Makes a run for whoever takes it.
local key = ARGV[5]

if not is_registered then
  return answer('unregistered')
end
local earlier = key ~= '' and redis.call('HGET', prefix .. 'orders', key)
if earlier and earlier ~= tick then
  local found, unreadable = load(prefix .. 'run:' .. earlier, RUN_FIELDS)
  if unreadable then
    return unreadable
  end
  run = found or run
end
if run then
  return answer('ordered') -- sent again, or an earlier order with the same key
end
local early_ms = tick_ms - now - EARLY_TOLERANCE_MS
if early_ms > 0 then
  return answer('too_early', int(early_ms))
elseif is_forgotten() or not is_manual then
  return answer('forgot')
elseif is_paused() and ARGV[7] ~= '1' then
  return answer('paused')
end
if key ~= '' then
  redis.call('HSET', prefix .. 'orders', key, tick)
end
run = untaken(ARGV[3])
set(run, 'state', 'abandoned')
set(run, 'number', '1')
set(run, 'trigger', 'manual')
set(run, 'ordered_by', ARGV[4])
set(run, 'order_key', key)
set(run, 'runs_for', ARGV[6])
set(run, 'despite_pause', ARGV[7])
set(run, 'delay_ms', '0')
set(run, 'ended_at', '0')
job.touched = true
return answer('ordered')
