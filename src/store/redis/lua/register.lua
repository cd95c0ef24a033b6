-- schedule, zone, spec_hash, skew_tolerance_ms, keep_ms, history_ticks, history_successful, history_failed
local schedule, zone = ARGV[3], ARGV[4]
local fresh = not job
local rescheduled = job and (job.is.schedule ~= schedule or job.is.zone ~= zone)

if fresh then
  job = new_record(KEYS[1], JOB_FIELDS)
  -- A new record may stand where a flushed or evicted one stood: what it may have forgotten is refused, not run.
  local since = now + tonumber(ARGV[6]) + EARLY_TOLERANCE_MS
  set(job, 'revision', '0')
  set(job, 'since', int(since))
  set(job, 'floor', '0')
  set(job, 'decided_through', int(math.floor(since / 1000)))
  set(job, 'last_begun', '0')
  set(job, 'failures', '0')
elseif rescheduled then
  -- A changed schedule never makes misses of the past.
  set(job, 'decided_through', int(math.max(num(job.is.decided_through), math.floor(now / 1000))))
end

set(job, 'schedule', schedule)
set(job, 'zone', zone)
set(job, 'spec_hash', ARGV[5])
set(job, 'registered_at', int(now))
set(job, 'keep_ms', ARGV[7])
set(job, 'history_ticks', ARGV[8])
set(job, 'history_successful', ARGV[9])
set(job, 'history_failed', ARGV[10])
return answer('registered', fresh and '1' or '0', rescheduled and '1' or '0')
