-- owner, start, request
local owner, start, request = ARGV[3], ARGV[4], ARGV[5]
local next_start = int(num(start) + 1)

if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif run.is.state == 'done' then
  return answer('done')
end

local ours = run.is.owner == owner and (run.is.state == 'claimed' or run.is.state == 'begun')
if ours and run.is.state == 'begun' and run.is.start == next_start and run.is.request == request then
  return answer('begun') -- the same request, sent again
end
-- The fence. Without it, an owner that paused here starts a run that another replica has long taken over.
if not ours or run.is.start ~= start then
  return answer('fenced')
elseif is_forgotten() then
  return answer('forgot')
end

-- Asking is a sign of life: a claim that waits for the slot is not taken over.
set(run, 'number', int(num(run.is.number) + 1))
local exclusive, slot = run.is.exclusive == '1', job.is.slot
local kept = num(start) > 0 and (not exclusive or slot == tick)
if not kept and num(job.is.last_begun) > tick_s then
  return answer('superseded')
end
if exclusive then
  -- A run that held the slot and was lost with it may be going. One that has it itself knows that none is.
  if num(job.is.quiet_ms) > 0 and not kept then
    return answer('quiet')
  end
  if slot ~= '' and slot ~= tick then
    local renewed = '0'
    for _, other in ipairs(open) do
      if other.is.scheduled_for == slot and num(other.is.renewed_at) >= tick_ms + num(run.is.delay_ms) then
        renewed = '1'
      end
    end
    return answer('busy', slot, renewed)
  end
  set(job, 'slot', tick)
end
set(run, 'state', 'begun')
set(run, 'start', next_start)
set(run, 'request', request)
set(run, 'begun_at', int(now))
set(run, 'renewed_at', int(now))
set(job, 'last_begun', int(math.max(num(job.is.last_begun), tick_s)))
return answer('begun')
