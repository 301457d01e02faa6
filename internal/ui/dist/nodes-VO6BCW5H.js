import{a,b}from"./chunk-RRMGGXRM.js";import"./chunk-D7RQUIRW.js";import"./chunk-2H2WQXEQ.js";import"./chunk-5CUNVS37.js";export{b as default,a as nodeState};
