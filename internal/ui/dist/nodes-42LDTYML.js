import{a,b}from"./chunk-C37BXDF7.js";import"./chunk-QPG7EI33.js";import"./chunk-4W6GEQRI.js";import"./chunk-QMK5YXUB.js";export{b as default,a as nodeState};
