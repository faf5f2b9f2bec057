-- tell_drift.lua: a run that has ended differs from the earlier ones of its name; whoever listens is told.
-- ARGV[1] job
-- returns 1
tell(ARGV[1], 'drift', 'finished')
return 1
