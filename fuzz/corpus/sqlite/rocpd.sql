PRAGMA page_size = 512;
CREATE TABLE rocpd_kernel_dispatch(id INTEGER,pid INTEGER,tid INTEGER,agent_id INTEGER,kernel_id INTEGER,start INTEGER,end INTEGER,event_id INTEGER);
INSERT INTO "rocpd_kernel_dispatch" VALUES(1,50,51,4,8,200,300,4);
CREATE TABLE rocpd_string(id INTEGER,string TEXT);
INSERT INTO "rocpd_string" VALUES(1,'k');
