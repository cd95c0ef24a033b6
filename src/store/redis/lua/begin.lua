-- owner, start, request; without a request the question is only whether it could begin
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
local refusal, occupant, renewed = refuses()
if refusal then
  return answer(refusal, occupant, renewed)
elseif request == '' then
  return answer('free')
end
job.touched = true
if run.is.exclusive == '1' then
  set(job, 'slot', tick)
end
set(run, 'waiting_since', '0')
set(run, 'state', 'begun')
set(run, 'start', next_start)
set(run, 'request', request)
set(run, 'asserted', job.is.forgot_at) -- known since the latest loss, like what its owner confirms
set(run, 'begun_at', int(now))
set(run, 'renewed_at', int(now))
if is_manual then
  -- Above the tokens of all that began before, and below those of ticks that begin later.
  local seconds = math.max(num(job.is.last_begun), math.floor(num(job.is.since) / 1000))
  local token = math.max(math.max(seconds, 0) * 1048576 + 524289, num(job.is.manual_token) + 1)
  set(job, 'manual_token', int(token))
  set(run, 'token', int(token))
else
  set(job, 'last_begun', int(math.max(num(job.is.last_begun), tick_s)))
end
return answer('begun')
