-- owner, start
if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif run.is.state == 'done' then
  return answer('done')
elseif run.is.state == 'lost' or not is_at(ARGV[3], ARGV[4]) then
  return answer('fenced')
elseif run.is.state == 'abandoned' then
  return answer('released') -- sent again
end
despite_full_memory()
give_back()
return answer('released')
