PRAGMA page_size = 512;
CREATE TABLE rocpd_api(id INTEGER,pid INTEGER,tid INTEGER,start INTEGER,end INTEGER,apiName_id INTEGER,args_id INTEGER);
INSERT INTO "rocpd_api" VALUES(20,50,51,100,110,1,1);
CREATE TABLE rocpd_op(id INTEGER,gpuId INTEGER,queueId INTEGER,start INTEGER,end INTEGER,description_id INTEGER,opType_id INTEGER);
INSERT INTO "rocpd_op" VALUES(1,2,0,200,300,1,1);
CREATE TABLE rocpd_string(id INTEGER,string TEXT);
INSERT INTO "rocpd_string" VALUES(1,'k');
