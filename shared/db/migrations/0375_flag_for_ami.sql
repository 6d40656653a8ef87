COMMENT ON COLUMN tasks.ami_flag IS 'READY once the task was done or finished, so that AMI is aware of it';
