-- owner, start, begun, lease_ms, grace_ms, takeover_ms, exclusive, rerun, trigger, spec_hash, number,
-- delay_ms, stop_grace_ms, when_busy
-- Makes the record of a run again, from its owner's word. Where there is nothing to make, what follows renews it.
local function is_settled_as_forgotten()
  return run.is.state == 'done' and run.is.range_first == '' and run.is.outcome == 'missed' and run.is.reason == 'store_forgot'
end

local function may_make()
  if num(job.is.forgot_at) == 0 or tick_ms > num(job.is.since) or (not is_manual and tick_s <= num(job.is.floor)) then
    return false
  elseif not run then
    return true
  elseif is_settled_as_forgotten() then
    -- It ran, or may have: the word is better. What did not begin may as well stay what the fleet was told it is.
    return ARGV[5] == '1' or tonumber(ARGV[4]) > 0
  elseif run.is.state == 'done' or is_asserted(run) then
    return false
  end
  -- An older state of this run: that of an earlier owner, or of this one.
  local older = num(run.is.start) < tonumber(ARGV[4])
  return older or (is_at(ARGV[3], ARGV[4]) and run.is.state ~= 'lost')
end

if is_registered and may_make() then
  despite_full_memory()
  withdrawn = run ~= nil and is_settled_as_forgotten()
  local number = math.max(tonumber(ARGV[13]), run and num(run.is.number) or 0) + NUMBER_LEAP
  local begun, exclusive = ARGV[5] == '1', ARGV[9] == '1'
  if begun then
    if not is_manual then
      set(job, 'last_begun', int(math.max(num(job.is.last_begun), tick_s)))
    end
    local taken = false
    for _, other in ipairs(open) do
      local holds = other.is.scheduled_for == job.is.slot and other.is.scheduled_for ~= tick
      taken = taken or (holds and is_asserted(other))
    end
    if exclusive and not taken then
      set(job, 'slot', tick)
    end
  end
  local was = run
  run = was or new_record(prefix .. 'run:' .. tick, RUN_FIELDS)
  -- What others asked for stays.
  local kept = {
    format = true, stop_asked = true, stop_asked_by = true, ordered_by = true, order_key = true, runs_for = true,
    despite_pause = true,
  }
  for _, name in ipairs(RUN_FIELDS) do
    if not kept[name] then
      set(run, name, '')
    end
  end
  set(run, 'scheduled_for', tick)
  set(run, 'state', begun and 'begun' or 'claimed')
  set(run, 'owner', ARGV[3])
  set(run, 'start', ARGV[4])
  set(run, 'number', int(number))
  set(run, 'lease_ms', ARGV[6])
  set(run, 'grace_ms', ARGV[7])
  set(run, 'takeover_ms', ARGV[8])
  set(run, 'delay_ms', ARGV[14])
  set(run, 'stop_grace_ms', ARGV[15])
  set(run, 'when_busy', ARGV[16])
  set(run, 'exclusive', ARGV[9])
  set(run, 'rerun', ARGV[10])
  set(run, 'trigger', ARGV[11])
  set(run, 'spec_hash', ARGV[12])
  set(run, 'claimed_at', int(now))
  set(run, 'begun_at', begun and int(now) or '0')
  set(run, 'renewed_at', int(now))
  set(run, 'asserted', job.is.forgot_at)
  for _, name in ipairs({ 'waiting_since', 'ended_at', 'duration_ms' }) do
    set(run, name, '0')
  end
  job.touched = true
  return answer('renewed')
elseif is_registered and run and is_at(ARGV[3], ARGV[4]) and (run.is.state == 'claimed' or run.is.state == 'begun') then
  set(run, 'asserted', job.is.forgot_at)
end
