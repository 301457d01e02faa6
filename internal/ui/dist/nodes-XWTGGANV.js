import{a,b}from"./chunk-D725UK6A.js";import"./chunk-KM26IJO2.js";import"./chunk-V7JS5EVJ.js";import"./chunk-HB7UWS4Y.js";export{b as default,a as nodeState};
