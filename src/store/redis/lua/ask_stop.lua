-- by, reason
if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif run.is.state == 'done' then
  return answer('done')
elseif run.is.stop_asked == '' then
  job.touched = true
  set(run, 'stop_asked', ARGV[4])
  set(run, 'stop_asked_by', ARGV[3])
end
return answer('asked')
