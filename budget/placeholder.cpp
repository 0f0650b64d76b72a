// budget
